"""The addition task: the sum of the two marked numbers of a long sequence."""

from __future__ import annotations

from dataclasses import asdict
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from passnet.config.tasks import AdditionTask
from passnet.tasks import draws
from passnet.tasks.order import Visits, in_order, pass_count
from passnet.tasks.task import (
    Batch,
    Shard,
    Split,
    Task,
    Totals,
    check_index,
    check_split,
    share,
    widened,
)

_LABELS = ("paper", "author")


@final
class Addition(Task):
    """Numbers uniform in [0, 1) beside two marks; one answer after `steps` steps.

    Training, and the paper's text, mark one step in each half. The author's code scores on marks at
    two different steps of the whole sequence; evaluation does both, in batches labelled `paper` and
    then `author`, each of `eval_size` sequences.
    `chance` answers 1 always, which is the best without memory of the marked numbers: 1/6.
    """

    name = "addition"
    input_size = 2
    output_size = 1
    rows_stand_alone = True
    readout = "last"

    def __init__(self, given: AdditionTask) -> None:
        super().__init__()
        self.given = given
        self._visits = Visits(given.order)

    def batch_count(self, split: Split, *, batch_size: int) -> int | None:
        check_split(split)
        if split != "train":
            return len(_LABELS) * pass_count(self.given.eval_size, batch_size)
        size = self.given.train_size
        return size and self._visits.count(size, batch_size)

    def batch(
        self,
        split: Split,
        index: int,
        *,
        batch_size: int,
        seed: int = 0,
        shard: Shard | None = None,
    ) -> Batch:
        check_index(index, self.batch_count(split, batch_size=batch_size), split)
        place = draws.key("addition", self.given.steps, self.given.data_seed, split)
        label = "paper"
        if split != "train":
            which, index = divmod(index, pass_count(self.given.eval_size, batch_size))
            label = _LABELS[which]
            place = draws.key(place, label)
            rows = in_order(
                index, size=self.given.eval_size, batch_size=batch_size, device=self.device
            )
        else:
            if self.given.train_size is None:
                place = draws.key(place, "fresh", seed)
            rows = self._visits.rows(
                index,
                size=self.given.train_size,
                batch_size=batch_size,
                seed=seed,
                device=self.device,
            )
        mine, mask, world = share(rows, shard)
        numbers = draws.uniform(draws.key(place, "numbers"), mine, slots=self.given.steps)
        inputs, targets = mark(numbers, self._marks(place, mine, label=label))
        return Batch(inputs, targets, mask=mask, denominator=len(rows) / world, label=label)

    def _marks(self, place: int, rows: Tensor, *, label: str) -> Tensor:
        half = self.given.steps // 2
        halves, anywhere = (half, self.given.steps - half), (self.given.steps, self.given.steps - 1)
        first_of, second_of = halves if label == "paper" else anywhere
        first = draws.integers(draws.key(place, "first"), rows, slots=1, high=first_of)
        second = draws.integers(draws.key(place, "second"), rows, slots=1, high=second_of)
        # Skipping over the first mark leaves every ordered pair of different steps equally likely.
        second = second + half if label == "paper" else second + (second >= first)
        return torch.cat((first, second))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return batch.mean((widened(outputs).squeeze(-1) - batch.targets).square())

    @torch.no_grad()
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        squares = (outputs.double().squeeze(-1) - batch.targets.double()).square()
        counts = batch.counted(torch.ones_like(squares))
        return Totals(
            {
                f"squares_{batch.label}": (squares * counts).sum(),
                f"count_{batch.label}": counts.sum(),
            }
        )

    def finish(self, totals: Totals) -> dict[str, float]:
        return {
            f"mse_{label}_distribution": (
                totals.sums[f"squares_{label}"] / totals.sums[f"count_{label}"]
            ).item()
            for label in _LABELS
            if f"count_{label}" in totals.sums
        }

    def chance(self, split: Split = "test") -> dict[str, float]:
        check_split(split)
        return {f"mse_{label}_distribution": 1 / 6 for label in _LABELS}

    def record(self) -> dict[str, object]:
        return {"task": self.name, **asdict(self.given)}


def mark(
    numbers: Float[Tensor, "T B"], marks: Int[Tensor, "2 B"]
) -> tuple[Float[Tensor, "T B 2"], Float[Tensor, " B"]]:
    """Inputs and sums for the numbers and the two steps of each sequence that are marked."""
    marked = torch.zeros_like(numbers).scatter_(0, marks, 1.0)
    return torch.stack((numbers, marked), dim=-1), numbers.gather(0, marks).sum(0)
