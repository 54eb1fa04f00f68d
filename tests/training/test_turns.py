"""Runs side by side: each advances as fast as its own stream lets it."""

from __future__ import annotations

import os
import signal
from dataclasses import fields, replace
from typing import Unpack, get_type_hints

import pytest
import torch
from tiny_runs import COPY, DIGITS, outcome

from passnet.training import Interrupted, Refused, train, train_together
from passnet.training.assembly import Choices, Options, assemble
from passnet.training.distributed import World
from passnet.training.events import Started, silent
from passnet.training.run import RunFolder
from passnet.training.scoring import scoring
from passnet.training.session import Session
from passnet.training.signals import Requests
from passnet.training.together import _Turns, take_turns


class Fake:
    """A run of so many updates whose stream has room only every `pace`-th time it is asked."""

    def __init__(self, name, *, length, pace, log):
        self.name, self.left, self.pace, self.log = name, length, pace, log
        self.updates = object()
        self.asked = 0

    def ready(self):
        self.asked += 1
        return self.asked % self.pace == 0

    def next(self):
        self.log.append(self.name)
        self.left -= 1
        if self.left == 0:
            self.updates = None
        return self.updates is not None


def test_a_slow_run_holds_up_no_other():
    log = []
    slow, fast = (Fake(n, length=30, pace=p, log=log) for n, p in (("slow", 10), ("fast", 1)))
    take_turns([slow, fast])
    assert log.count("slow") == log.count("fast") == 30
    while_fast = log[: len(log) - log[::-1].index("fast")]
    assert while_fast.count("slow") <= 3


def test_where_none_is_ready_all_are_asked_again():
    log = []
    take_turns([Fake(name, length=2, pace=p, log=log) for name, p in (("a", 50), ("b", 20))])
    assert log == ["b", "b", "a", "a"]


def test_so_many_at_once_and_the_next_when_one_ends():
    log = []
    lengths = {"a": 3, "b": 1, "c": 2, "d": 1}
    take_turns([Fake(n, length=k, pace=1, log=log) for n, k in lengths.items()], at_once=2)
    assert log == ["a", "b", "a", "c", "a", "c", "d"]


def test_runs_that_wait_do_not_begin_after_a_signal(tmp_path):
    experiments = [replace(COPY, seed=seed) for seed in range(3)]
    folders = [tmp_path / f"seed-{e.seed}" for e in experiments]

    def leave(event):
        if isinstance(event, Started):
            os.kill(os.getpid(), signal.SIGTERM)

    found = train_together(experiments, folders, device="cpu", listener=leave)
    assert all(isinstance(outcome, Interrupted) for outcome in found)
    assert "before it began" in str(found[1]) and "same command" in str(found[2])
    assert [(folder / "checkpoints").exists() for folder in folders] == [True, False, False]
    again = train_together(experiments, folders, device="cpu")
    assert [result.seed for result in again] == [0, 1, 2]


def test_an_error_in_one_run_is_raised_when_the_others_have_ended(tmp_path):
    experiments = [replace(COPY, seed=seed) for seed in range(3)]
    folders = [tmp_path / f"seed-{e.seed}" for e in experiments]

    def breaks(event):
        raise MemoryError("no room")

    listeners = [silent, breaks, silent]
    with pytest.raises(MemoryError, match="no room"):
        train_together(experiments, folders, device="cpu", listeners=listeners)
    assert [(folder / "result.json").exists() for folder in folders] == [True, False, True]
    with pytest.raises(ValueError, match="3 experiments and 1 listeners"):
        train_together(experiments, folders, device="cpu", listeners=[silent])


def test_data_that_one_run_lacks_are_its_error_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    mnist = replace(DIGITS, task=replace(DIGITS.task, source="mnist", sizes=(6000, 1000, 1000)))
    folders = [tmp_path / "digits", tmp_path / "copy"]
    found = train_together([mnist, COPY], folders, device="cpu")
    assert isinstance(found[0], Refused) and "passnet data fetch mnist" in str(found[0])
    assert found[1] == train(COPY, tmp_path / "copy", device="cpu")


@pytest.mark.parametrize("count", [0, -1])
def test_a_number_of_runs_at_once_is_at_least_one(tmp_path, count):
    with pytest.raises(ValueError, match="1 or more"):
        train_together([COPY], [tmp_path], device="cpu", at_once=count)


def test_nothing_to_do():
    take_turns([])


def test_interleaved_runs_are_those_alone(tmp_path):
    """Updates of one run between the batches of another's evaluation change neither."""
    experiments = [COPY, DIGITS, replace(COPY, seed=1)]
    world = World(torch.device("cpu"))
    with Requests() as requests:
        turns = [
            _Turns(
                Session(
                    experiment,
                    RunFolder(tmp_path / f"together-{k}"),
                    options=Options(),
                    world=world,
                    listener=silent,
                    requests=requests,
                ),
                own_stream=False,
            )
            for k, experiment in enumerate(experiments)
        ]
        take_turns(turns)
    for k, experiment in enumerate(experiments):
        train(experiment, tmp_path / f"alone-{k}", device="cpu")
        together, alone = (outcome(tmp_path / f"{way}-{k}") for way in ("together", "alone"))
        assert together == alone


def test_gradients_are_on_while_an_evaluation_pauses():
    parts = assemble(COPY, options=Options(), world=World(torch.device("cpu")))
    network = parts.training.network
    going = scoring(network, parts.task, split="valid", batch_size=7, world=parts.world)
    next(going)
    assert torch.is_grad_enabled()
    next(going)
    assert torch.is_grad_enabled() and not network.training
    going.close()
    assert network.training


def test_both_ways_to_train_take_every_option_of_a_run():
    assert list(get_type_hints(Choices)) == [field.name for field in fields(Options)]
    for function in (train, train_together):
        assert get_type_hints(function)["choices"] == Unpack[Choices]
