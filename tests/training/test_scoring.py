"""How much is scored at once: as much as fits, and never what would change a score."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from passnet.experiments import get
from passnet.training.scoring import scoring_batch_size


@pytest.mark.parametrize(
    "preset, name, device, expected",
    [
        ("highway-mnist/lr-1024-256", "flat_mnist", "cpu", 1000),
        ("psmnist/lrd-gru-256-24", "sequential_mnist", "cpu", 128),
        ("psmnist/lrd-gru-256-24", "sequential_mnist", "cuda", 512),
        ("char-lm/lrd-gru-6985-64-tied-dropout", "character_sentences", "cuda", 32),
        # A lane of a stream begins without a past, so there are as many as in training.
        ("beyond/ptb-2.6M", "character_stream", "cuda", 64),
    ],
)
def test_scored_at_once(preset, name, device, expected):
    task = SimpleNamespace(name=name, device=torch.device(device))
    assert scoring_batch_size(get(preset), task) == expected


def test_never_less_than_in_training():
    large = replace(get("highway-mnist/lr-1024-256"), batch_size=1200)
    task = SimpleNamespace(name="flat_mnist", device=torch.device("cpu"))
    assert scoring_batch_size(large, task) == 1200
