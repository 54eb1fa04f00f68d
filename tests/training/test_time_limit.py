"""A run that may take some minutes ends with an evaluation, says so, and goes on with more."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from tiny_runs import COPY, HIGHWAY, SENTENCES, outcome

from passnet.training import CheckpointError, Started, train, train_together
from passnet.training.time_limit import TimeLimit, given_minutes

HARDLY = 1e-9  # minutes


def begun(folder, **options) -> list[int]:
    """Trains on, and says from which updates."""
    seen = []

    def listen(event):
        if isinstance(event, Started):
            seen.append(event.update)
            assert not (folder / "result.json").exists()  # while it goes on, it has none

    train(COPY, folder, device="cpu", listener=listen, **options)
    return seen


@pytest.mark.parametrize("experiment", [COPY, HIGHWAY, SENTENCES], ids=lambda e: e.name)
def test_cut_short_and_gone_on_it_is_the_run_that_took_its_time(tmp_path, experiment):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(experiment, whole, device="cpu")
    first = train(experiment, parts, device="cpu", minutes=HARDLY)
    last = json.loads((whole / "result.json").read_text())
    assert first.updates < last["updates"] and first.value is not None
    assert first.stopped == f"time: {HARDLY} minutes have no room for another evaluation"
    assert train(experiment, parts, device="cpu").stopped == last["stopped"]
    assert outcome(parts) == outcome(whole)


def test_the_same_time_or_less_gives_the_result_that_is_there(tmp_path):
    first = train(COPY, tmp_path / "run", device="cpu", minutes=HARDLY)
    assert first.updates == COPY.evaluate_every
    assert begun(tmp_path / "run", minutes=HARDLY) == []
    assert begun(tmp_path / "run", minutes=HARDLY / 2) == []
    assert begun(tmp_path / "run", minutes=2 * HARDLY) == [COPY.evaluate_every]
    assert begun(tmp_path / "run", minutes=1000) == [2 * COPY.evaluate_every]
    assert begun(tmp_path / "run") == []  # it had its time


def test_a_run_that_is_through_in_its_last_minute_was_not_cut_short(tmp_path):
    once = replace(COPY, evaluate_every=COPY.updates)
    result = train(once, tmp_path, device="cpu", minutes=HARDLY)
    assert (result.updates, result.stopped) == (COPY.updates, "updates: all are taken")


def test_killed_before_its_result_it_is_not_given_more(tmp_path):
    first = train(COPY, tmp_path / "run", device="cpu", minutes=HARDLY)
    (tmp_path / "run" / "result.json").unlink()
    again = train(COPY, tmp_path / "run", device="cpu", minutes=HARDLY)
    assert (again.updates, again.value, again.stopped) == (
        first.updates,
        first.value,
        first.stopped,
    )


def test_a_copy_without_checkpoints_keeps_its_result(tmp_path):
    first = train(COPY, tmp_path / "run", device="cpu", minutes=HARDLY)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    before = outcome(tmp_path / "run")
    assert train(COPY, tmp_path / "run", device="cpu") == first
    assert outcome(tmp_path / "run") == before


def test_what_refuses_to_go_on_leaves_the_result(tmp_path):
    train(COPY, tmp_path / "run", device="cpu", minutes=HARDLY)
    before = outcome(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        train(COPY, tmp_path / "run", device="cpu")
    assert outcome(tmp_path / "run") == before


def test_each_of_several_has_its_minutes(tmp_path):
    runs = [COPY, replace(COPY, seed=1)]
    folders = [tmp_path / "0", tmp_path / "1"]
    found = train_together(runs, folders, device="cpu", minutes=HARDLY)
    assert [result.updates for result in found] == [COPY.evaluate_every] * 2


def test_the_last_evaluation_that_fits():
    limit = TimeLimit(2)  # minutes
    limit.begin(0.0)
    assert [limit.leaves_no_room(s) for s in (30.0, 60.0, 89.0, 119.0)] == [
        False,
        False,
        False,
        True,
    ]
    limit.begin(200.0)
    assert limit.leaves_no_room(201.0)
    assert not TimeLimit(None).leaves_no_room(1e9)
    assert given_minutes(limit.words) == 2 and given_minutes("updates: all are taken") is None
    assert given_minutes(None) is None
