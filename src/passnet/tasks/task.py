"""What a task is: batches as a pure function of their position, a loss, and scores that add up."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Literal, Self

import torch
from torch import Tensor

Split = Literal["train", "valid", "test"]
Readout = Literal["steps", "last", "flat"]
Shard = tuple[int, int]


@dataclass(frozen=True)
class Batch:
    """A minibatch, or one process's share of it.

    inputs: symbols [T, B], features [T, B, m], or [B, m] where there is no time.
    targets: [T, B] for every step, [B] for one answer per sequence; [B, classes] for shares of
        several answers.
    lengths: steps of each sequence [B], or None where all take T steps.
    mask: 1 where a target counts, [T, B] or [B], or None where all count.
    denominator: what the summed loss is divided by, a tensor where it differs from batch to batch;
        the mean of the losses of all shares, and of their gradients, is that of the whole batch.
    carries_state: whether the state left by the batch before is this one's initial state.
    groups: which of `group_count` sentences each target belongs to [T, B], where sentences may go
        on from one batch to the next.
    label: which of several distributions of one split the batch is from.
    """

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None = None
    mask: Tensor | None = None
    denominator: float | Tensor = 1.0
    carries_state: bool = False
    groups: Tensor | None = None
    group_count: int = 0
    label: str = ""

    def counted(self, costs: Tensor) -> Tensor:
        """A number for each target, 0 where it does not count."""
        return costs if self.mask is None else costs * self.mask

    def mean(self, costs: Tensor) -> Tensor:
        """The costs of all targets as one to be minimised."""
        return self.counted(costs).sum() / self.denominator

    def tensors(self) -> dict[str, Tensor]:
        """The fields that are tensors, by name."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass
class Totals:
    """Sums that add up over batches and processes; `Task.finish` turns them into scores."""

    sums: dict[str, Tensor] = field(default_factory=dict)

    def __add__(self, other: Totals) -> Totals:
        both = dict(self.sums)
        for name, value in other.sums.items():
            both[name] = both[name] + value if name in both else value
        return Totals(both)

    def reduce(self, function: Callable[[Tensor], Tensor]) -> Totals:
        """Apply `function`, such as a sum over processes, to every tensor in a fixed order."""
        return Totals({name: function(self.sums[name]) for name in sorted(self.sums)})


class Task(ABC):
    """Data and score. Tensors live on the device given to `to`, so batching there is a gather."""

    name: str
    input_size: int
    output_size: int
    readout: Readout
    rows_stand_alone: bool = False
    """Whether a training batch is so many rows of a set, each by itself: then successive batches
    are one larger batch cut into pieces."""
    holds_out: bool = True
    """Whether training sees nothing of the validation split, so that scores on it say something."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self._store: dict[str, Tensor] = {}

    def to(self, device: torch.device | str) -> Self:
        """Move what is stored, and all later batches, to `device`."""
        self.device = torch.device(device)
        self._store = {name: value.to(device) for name, value in self._store.items()}
        return self

    @abstractmethod
    def batch_count(self, split: Split, *, batch_size: int) -> int | None:
        """Batches in one pass over the split, or None where fresh data never end."""

    @abstractmethod
    def batch(
        self,
        split: Split,
        index: int,
        *,
        batch_size: int,
        seed: int = 0,
        shard: Shard | None = None,
    ) -> Batch:
        """Batch `index`: for "train" the update's number over all epochs, else below batch_count.

        A pure function of its arguments. `shard=(rank, world)` is one share of the rows.
        """

    def batches(
        self,
        split: Split,
        *,
        batch_size: int,
        seed: int = 0,
        start: int = 0,
        shard: Shard | None = None,
    ) -> Iterator[Batch]:
        """Batches from `start` on: without end for "train", one pass for the other splits."""
        count = None if split == "train" else self.batch_count(split, batch_size=batch_size)
        for index in itertools.count(start) if count is None else range(start, count):
            yield self.batch(split, index, batch_size=batch_size, seed=seed, shard=shard)

    @abstractmethod
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """What training minimises, before any penalty."""

    def penalty(self, output_weight: Tensor) -> Tensor | None:
        """What the task adds to the loss for the output matrix, or None."""
        del output_weight
        return None

    @abstractmethod
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        """The batch's contribution to the scores, in float64 and without gradient."""

    @abstractmethod
    def finish(self, totals: Totals) -> dict[str, float]:
        """Named scores; every name says what was averaged over what."""

    @abstractmethod
    def chance(self, split: Split = "test") -> dict[str, float]:
        """The scores of a model with no memory; the class says what such a model may know."""

    @abstractmethod
    def record(self) -> dict[str, object]:
        """Everything needed to draw the same data again, as JSON values."""


def share(rows: Tensor, shard: Shard | None) -> tuple[Tensor, Tensor | None, int]:
    """This process's rows, a mask where it has none of its own, and the number of processes.

    A process left without rows computes the first one with weight 0: every process must take part
    in the exchange of gradients.
    """
    if shard is None:
        return rows, None, 1
    rank, world = shard
    if not 0 <= rank < world:
        raise ValueError(f"shard={shard}: expected (rank, world) with 0 <= rank < world")
    low, high = rank * len(rows) // world, (rank + 1) * len(rows) // world
    if low == high:
        return rows[:1], torch.zeros(1, device=rows.device), world
    return rows[low:high], None, world


def widened(outputs: Tensor) -> Tensor:
    """Outputs in float32 at least: half precision is too coarse for a sum of costs."""
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32))


def check_split(split: str) -> None:
    """Raise ValueError for a split that does not exist."""
    if split not in ("train", "valid", "test"):
        raise ValueError(f"split={split!r}: expected 'train', 'valid' or 'test'")


def check_index(index: int, count: int | None, split: str) -> None:
    """Raise ValueError for a batch that does not exist; only "train" goes on after one pass."""
    if index < 0 or (split != "train" and count is not None and index >= count):
        raise ValueError(f"batch {index} of split {split!r}: expected 0 .. {(count or 0) - 1}")
