"""A run that is given more updates goes on as if it had been meant to have them."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from dying import FORKS, die_at_file_operation
from tiny_runs import ADDITION, COPY, STREAM, outcome

from passnet.config import Constant, Experiment
from passnet.training import Refused, train

LONG = replace(ADDITION, schedule=Constant(), ema=None, updates=24, evaluate_every=4)
SHORT = replace(LONG, updates=12)


def run(experiment: Experiment, folder: Path, **options):
    return train(experiment, folder, device="cpu", checkpoint_seconds=None, **options)


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long") / "run"
    run(LONG, folder)
    return outcome(folder)


def test_it_ends_as_if_it_had_been_meant_to(tmp_path, at_once):
    folder = tmp_path / "run"
    assert run(SHORT, folder).updates == 12
    assert run(LONG, folder).updates == 24
    assert outcome(folder) == at_once
    run(replace(LONG, updates=28), folder)
    record = json.loads((folder / "experiment.json").read_text())
    assert record["experiment"]["updates"] == 28 and len(set(record["earlier"])) == 2


def test_it_may_be_unfinished(tmp_path, at_once):
    folder = tmp_path / "run"
    run(replace(SHORT, updates=8), folder)
    (folder / "result.json").unlink()
    run(LONG, folder)
    assert outcome(folder) == at_once


def dies(folder: str, die_at: int) -> None:
    """Go on in this process, which ends itself at the `die_at`-th file operation."""
    torch.set_num_threads(1)
    die_at_file_operation(die_at)
    run(LONG, Path(folder))


def test_killed_at_every_file_operation(tmp_path, at_once):
    short, deaths = tmp_path / "short", 0
    run(SHORT, short)
    for die_at in itertools.count(1):
        folder = tmp_path / f"run-{die_at}"
        shutil.copytree(short, folder)
        process = FORKS.Process(target=dies, args=(str(folder), die_at))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        deaths += 1
        run(LONG, folder)
        assert outcome(folder) == at_once, die_at
    assert deaths > 4


@pytest.mark.parametrize(
    ("before", "updates", "words"),
    [
        (LONG, 20, "not fewer"),
        (replace(SHORT, updates=10), 24, "after update 10, is none that a longer run"),
        (STREAM, 60, "depends on how many updates"),
        (COPY, 60, "depends on how many updates"),
    ],
    ids=lambda given: getattr(given, "name", given),
)
def test_what_would_not_be_the_same_is_refused(before, updates, words, tmp_path):
    folder = tmp_path / "run"
    run(before, folder)
    kept = outcome(folder)
    with pytest.raises(Refused, match=rf"updates was {before.updates} and is {updates}, .*{words}"):
        run(replace(before, updates=updates), folder)
    assert outcome(folder) == kept


def test_a_copy_without_checkpoints_is_refused(tmp_path):
    folder = tmp_path / "run"
    run(SHORT, folder)
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(
        Refused, match="without checkpoints, which cannot be continued to 24 updates"
    ):
        run(LONG, folder)
    assert run(SHORT, folder).updates == 12
