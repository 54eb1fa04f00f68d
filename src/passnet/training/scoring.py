"""Scores of a network on a split, summed over batches and processes."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping

import torch
from torch import Tensor, nn

from passnet.config import Experiment
from passnet.tasks.task import Split, Task, Totals
from passnet.training.distributed import World
from passnet.training.model import Network, State
from passnet.training.update import autocast

UNITS_AT_ONCE = {"cpu": 32_768, "cuda": 131_072}
"""States that are scored at once where every step of them is held."""
MOST_AT_ONCE = 1000


def scoring_batch_size(experiment: Experiment, task: Task) -> int:
    """How many sequences are scored at once: more than in training where the state is small.

    The lanes of a stream stay as many as in training, because a lane begins without a past.
    """
    if task.name == "character_stream":
        return experiment.batch_size
    if experiment.model.cell == "highway":
        return max(experiment.batch_size, MOST_AT_ONCE)
    units = UNITS_AT_ONCE.get(task.device.type, UNITS_AT_ONCE["cpu"])
    return max(experiment.batch_size, min(MOST_AT_ONCE, units // experiment.model.size))


@torch.no_grad()
def scoring(
    network: Network,
    task: Task,
    *,
    split: Split,
    batch_size: int,
    world: World,
    precision: str = "float32",
) -> Generator[None, None, dict[str, float]]:
    """One pass over `split` without dropout, pausing before each batch; returns its scores."""
    count = task.batch_count(split, batch_size=batch_size)
    assert count is not None
    totals = Totals()
    state: State | None = None
    was_training = network.training
    network.eval()
    try:
        for index in range(count):
            yield
            batch = task.batch(split, index, batch_size=batch_size, shard=world.shard)
            with autocast(precision, world.device):
                start = state if batch.carries_state else None
                outputs, state = network(batch.inputs, start, batch.lengths)
            totals = totals + task.totals(outputs, batch)
    finally:
        network.train(was_training)
    return task.finish(totals.reduce(world.sum))


def score(network: Network, task: Task, **words) -> dict[str, float]:
    """The scores of `scoring`, in one go."""
    going = scoring(network, task, **words)
    while True:
        try:
            next(going)
        except StopIteration as end:
            return end.value


@contextlib.contextmanager
@torch.no_grad()
def using(module: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Within the context the named parameters and buffers have these values."""
    own = tensors_of(module)
    kept = {name: own[name].clone() for name in tensors}
    put_(module, tensors)
    try:
        yield
    finally:
        put_(module, kept)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, not copied."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


@torch.no_grad()
def put_(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy values into the named parameters and buffers, which stay where they are in memory."""
    own = tensors_of(module)
    for name, value in tensors.items():
        own[name].copy_(value)
