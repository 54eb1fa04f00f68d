"""The batches of a run, update by update, drawn many at a time where the task allows."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from passnet.config import Experiment
from passnet.tasks.task import Batch, Task
from passnet.training.distributed import World

AT_ONCE = 64
"""The most updates whose batches are drawn together."""


@final
class Feed:
    """What a process computes of the batch of each update: `accumulate` pieces.

    Drawing a batch on a GPU costs launches, not arithmetic, so a block of batches costs what one
    does. A batch is a pure function of its update either way.
    """

    def __init__(self, experiment: Experiment, task: Task, *, world: World) -> None:
        self.experiment = experiment
        self.task = task
        self.world = world
        whole = world.size * experiment.accumulate == 1
        self.at_once = batches_at_once(task, experiment.batch_size) if whole else 1
        self._block: int | None = None
        self._batches: list[Batch] = []

    def pieces(self, update: int) -> list[Batch]:
        """This process's pieces of the batch of an update."""
        if self.at_once == 1:
            return self._shards(update)
        block, place = divmod(update, self.at_once)
        if block != self._block:
            self._batches = draw_together(
                self.task,
                block,
                count=self.at_once,
                batch_size=self.experiment.batch_size,
                seed=self.experiment.seed,
            )
            self._block = block
        return [self._batches[place]]

    def _shards(self, update: int) -> list[Batch]:
        pieces = self.experiment.accumulate
        shares = self.world.size * pieces
        return [
            self.task.batch(
                "train",
                update,
                batch_size=self.experiment.batch_size,
                seed=self.experiment.seed,
                shard=None if shares == 1 else (self.world.rank * pieces + piece, shares),
            )
            for piece in range(pieces)
        ]


def batches_at_once(task: Task, batch_size: int) -> int:
    """How many successive batches are one larger batch of the task; 1 where none are."""
    if not task.rows_stand_alone:
        return 1
    per_epoch = task.batch_count("train", batch_size=batch_size)
    if per_epoch is None:
        return AT_ONCE
    for count in range(min(AT_ONCE, per_epoch), 1, -1):
        larger = task.batch_count("train", batch_size=count * batch_size)
        if per_epoch % count == 0 and larger == per_epoch // count:
            return count
    return 1


def draw_together(task: Task, block: int, *, count: int, batch_size: int, seed: int) -> list[Batch]:
    """The batches of updates block * count to (block + 1) * count, as one draw."""
    large = task.batch("train", block, batch_size=count * batch_size, seed=seed)
    axis = 0 if task.readout == "flat" else 1
    answers = 1 if task.readout == "steps" else 0
    rows = large.targets.shape[answers]
    return [
        replace(
            large,
            inputs=inputs,
            targets=targets,
            denominator=large.denominator * targets.shape[answers] / rows,
        )
        for inputs, targets in zip(
            large.inputs.split(batch_size, dim=axis),
            large.targets.split(batch_size, dim=answers),
            strict=True,
        )
    ]
