"""Batches drawn together are the batches drawn one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_runs import ADDITION, COPY, DIGITS, HIGHWAY, STREAM

from passnet.training.distributed import World
from passnet.training.feed import Feed, batches_at_once
from passnet.training.problem import build_task

ALONE = World(torch.device("cpu"))


def feed_of(experiment):
    return Feed(experiment, build_task(experiment.task), world=ALONE)


@pytest.mark.parametrize(
    "experiment",
    [
        COPY,
        ADDITION,
        DIGITS,
        HIGHWAY,
        replace(DIGITS, task=replace(DIGITS.task, mixup=0.5)),
        replace(HIGHWAY, task=replace(HIGHWAY.task, mixup=0.5)),
        replace(COPY, task=replace(COPY.task, train_size=None)),
        replace(COPY, task=replace(COPY.task, order="fixed"), seed=3),
    ],
    ids=lambda e: e.name,
)
def test_batches_drawn_together_are_those_drawn_one_by_one(experiment):
    feed = feed_of(experiment)
    assert feed.at_once > 1
    assert feed.task.given == experiment.task
    updates = [0, 1, feed.at_once - 1, feed.at_once, 3 * feed.at_once + 1, 0]
    for update in updates:
        (found,) = feed.pieces(update)
        expected = feed.task.batch(
            "train", update, batch_size=experiment.batch_size, seed=experiment.seed
        )
        assert torch.equal(found.inputs, expected.inputs)
        assert torch.equal(found.targets, expected.targets)
        assert found.denominator == expected.denominator
        assert found.mask is None and found.lengths is None


def test_what_cannot_be_drawn_together_is_drawn_one_by_one():
    assert feed_of(STREAM).at_once == 1
    assert feed_of(replace(COPY, accumulate=2)).at_once == 1


@pytest.mark.parametrize(("size", "batch", "expected"), [(100, 10, 10), (105, 10, 10), (70, 10, 7)])
def test_blocks_never_cross_an_epoch(size, batch, expected):
    task = build_task(replace(COPY.task, train_size=size))
    assert batches_at_once(task, batch) == expected
