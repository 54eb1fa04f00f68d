"""Names of contenders, as files of timings hold them."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from passnet.bench import measure
from passnet.bench.contenders import Contender
from passnet.config.contender import (
    BF16,
    CALL,
    FLOAT32,
    GRAPH,
    GRAPHED,
    ONE_THREAD,
    PRECISIONS,
    WAYS,
    ContenderName,
    read_name,
)

FILES = Path(__file__).parents[2] / "benchmarks" / "results"
LAYERS = ("passnet", "passnet eager", "nn.GRU", "nn.LSTM(proj_size=24)", "loop", "compiled loop")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("passnet", ContenderName("passnet", FLOAT32, CALL)),
        ("nn.GRU bf16 graph", ContenderName("nn.GRU", BF16, GRAPH)),
        ("nn.LSTM(proj_size=24) one thread", ContenderName(LAYERS[3], FLOAT32, ONE_THREAD)),
        ("passnet graphed calls", ContenderName("passnet", FLOAT32, GRAPHED)),
        ("compiled loop", ContenderName("compiled loop")),
    ],
)
def test_text_and_name_stand_for_each_other(text, name):
    assert read_name(text) == name and str(name) == text


def test_no_two_contenders_have_one_name():
    every = [ContenderName(layer, p, way) for layer in LAYERS for p in PRECISIONS for way in WAYS]
    assert [read_name(str(name)) for name in every] == every
    assert [name.ours for name in every[:: len(PRECISIONS) * len(WAYS)]] == [True] * 2 + [False] * 4


def test_all_that_was_ever_timed_is_understood():
    paths = sorted(FILES.glob("*.json"))
    texts = {row["contender"] for path in paths for row in json.loads(path.read_text())["rows"]}
    known = {"passnet", "passnet eager", "passnet reference", "loop", "compiled loop"}
    for name in map(read_name, texts):
        assert name.layer in known or (name.layer.startswith("nn.") and " " not in name.layer)


def test_on_a_gpu_every_way_to_run_a_layer_is_timed_under_its_name(monkeypatch):
    for made in ("_captured", "_graphed", "gradients"):
        monkeypatch.setattr(measure, made, lambda *_: lambda: None)
    on_gpu = Mock(is_cuda=True)
    lower = Contender("nn.GRU bf16", None, torch.bfloat16)
    found = {"nn.GRU": Contender("nn.GRU", None), "nn.GRU bf16": lower, "loop": Contender("", None)}
    names = [name for name, _ in measure._works(found, on_gpu, on_gpu, "forward+backward")]
    assert {name.way for name in names if name.called == read_name("nn.GRU")} == set(WAYS)
    assert [name.way for name in names if name.precision == BF16] == [CALL, GRAPH]
    assert [str(name) for name in names if name.layer == "loop"] == ["loop"]
