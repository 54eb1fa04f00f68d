"""Several processes train as one: the same curve to rounding, and checkpoints for any number."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_runs import COPY, HIGHWAY, SENTENCES, STREAM

import passnet
from passnet.config import ClipNorm, LowRankPlusDiagonal, Model, to_json
from passnet.training import Interrupted, Refused, RunError, Saved, Warned, train
from passnet.training.distributed import World, choose_device, share_sizes

FORKS = multiprocessing.get_context("fork")

# In double precision rounding is far below what a wrong share or denominator would change.
CLOSE = {"rel": 1e-9, "abs": 1e-12}

MODEL = Model(size=8, matrix=LowRankPlusDiagonal(3), carry_bias=1.0, learn_initial_state=True)
EXPERIMENTS = {
    "copy": replace(COPY, model=MODEL, batch_size=9),
    "stream": replace(STREAM, model=MODEL, accumulate=1, batch_size=50),
    "stream in pieces": replace(STREAM, model=replace(MODEL, cell="lstm"), batch_size=50),
    "sentences": replace(SENTENCES, model=MODEL, clipping=ClipNorm(0.5)),
    "characters": replace(
        SENTENCES, model=MODEL, task=replace(SENTENCES.task, average="character")
    ),
}


def carry_out(name: str, folder: str, rank: int, size: int, port: int, stop: bool) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if size > 1:
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }

    def listener(event):
        if isinstance(event, Saved) and event.update == 9 and stop:
            signal.raise_signal(signal.SIGTERM)

    try:
        train(EXPERIMENTS[name], folder, device="cpu", listener=listener, checkpoint_every=9)
    except Interrupted:
        sys.exit(75)


def run(name, folder, *, size, stop=False):
    if torch.cuda.is_initialized():
        pytest.skip(
            "a process that has started CUDA cannot be forked: run these tests by themselves"
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        FORKS.Process(target=carry_out, args=(name, str(folder), rank, size, port, stop))
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def curve(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def assert_same_curve(one: Path, other: Path) -> None:
    first, second = curve(one), curve(other)
    assert [line["kind"] for line in first] == [line["kind"] for line in second]
    for line, twin in zip(first, second, strict=True):
        assert line.keys() == twin.keys()
        for key, value in line.items():
            if isinstance(value, float):
                assert twin[key] == pytest.approx(value, **CLOSE), key
            else:
                assert twin[key] == value
    numbers = [json.loads((folder / "result.json").read_text()) for folder in (one, other)]
    assert numbers[0]["selected_update"] == numbers[1]["selected_update"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    known = {}

    def get(name):
        if name not in known:
            known[name] = tmp_path_factory.mktemp("alone") / "run"
            assert run(name, known[name], size=1) == [0]
        return known[name]

    return get


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_two_processes_follow_the_curve_of_one(name, tmp_path, alone):
    assert run(name, tmp_path / "run", size=2) == [0, 0]
    assert_same_curve(alone(name), tmp_path / "run")


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("name", ["stream in pieces", "copy"])
def test_a_checkpoint_of_some_processes_goes_on_with_others(name, before, after, tmp_path, alone):
    folder = tmp_path / "run"
    assert run(name, folder, size=before, stop=True) == [75] * before
    assert not (folder / "result.json").exists()
    assert run(name, folder, size=after) == [0] * after
    assert_same_curve(alone(name), folder)


def test_torchrun_works_unchanged(tmp_path, alone):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys, torch\n"
        "from passnet.config import from_json\n"
        "from passnet.training import train\n"
        "torch.set_num_threads(1)\n"
        "torch.set_default_dtype(torch.float64)\n"
        "train(from_json(json.load(open(sys.argv[1]))), sys.argv[2], device='cpu')\n"
    )
    (tmp_path / "experiment.json").write_text(json.dumps(to_json(EXPERIMENTS["copy"])))
    source = str(Path(passnet.__file__).parents[1])
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *torchrun, script, tmp_path / "experiment.json", tmp_path / "run"],
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert_same_curve(alone("copy"), tmp_path / "run")


def test_shares_are_those_of_the_tasks():
    assert share_sizes(50, 4) == [12, 13, 12, 13]
    assert sum(share_sizes(7, 3)) == 7


def test_a_world_of_one_exchanges_nothing():
    world = World(torch.device("cpu"))
    tensor = torch.ones(2, 3)
    world.mean_([tensor])
    assert world.sum(tensor) is tensor
    assert world.any(True)
    assert not world.any(False)
    assert world.send(b"abc") == b"abc"
    assert world.join_lanes(tensor, [3]) is tensor
    assert world.first
    assert world.shard is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_a_sentence():
    assert choose_device() == torch.device("cpu")
    with pytest.raises(RunError, match="PyTorch sees no GPU"):
        choose_device("cuda")
    for wanted in ("bogus", "cuda:many", "meta", torch.device("meta")):
        with pytest.raises(Refused, match=rf"device '{wanted}' was asked for: expected 'cpu'"):
            choose_device(wanted)


def test_a_batch_too_small_to_divide_is_refused(tmp_path, monkeypatch):
    from passnet.training.assembly import Options, assemble

    experiment = replace(COPY, batch_size=2)
    with pytest.raises(RunError, match="batch_size=2 is too small for 3 processes"):
        assemble(experiment, options=Options(), world=World(torch.device("cpu"), 0, 3))
    with pytest.raises(Refused, match=r"is too small for 3 processes .* two examples for each"):
        experiment = replace(HIGHWAY, batch_size=5)
        assemble(experiment, options=Options(), world=World(torch.device("cpu"), 0, 3))


def test_what_depends_on_the_pieces_is_warned_about(tmp_path):
    events = []
    train(replace(HIGHWAY, accumulate=2), tmp_path, device="cpu", listener=events.append)
    texts = [event.text for event in events if isinstance(event, Warned)]
    assert any("batch normalisation" in text for text in texts)
    assert any("dropout masks" in text for text in texts)
