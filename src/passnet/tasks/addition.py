"""The addition task: the sum of the two marked numbers of a long sequence."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from passnet.tasks import draws
from passnet.tasks.order import Order, Visits, in_order, pass_count
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
    train_size: a data set drawn once from `data_seed`, or None for fresh data at every update.
    `chance` answers 1 always, which is the best without memory of the marked numbers: 1/6.
    """

    name = "addition"
    input_size = 2
    output_size = 1
    rows_stand_alone = True
    readout = "last"

    def __init__(
        self,
        *,
        steps: int = 750,
        train_size: int | None = 100_000,
        eval_size: int = 10_000,
        order: Order = "shuffled",
        data_seed: int = 0,
    ) -> None:
        super().__init__()
        if steps < 2:
            raise ValueError(f"steps={steps}: two marked numbers need at least 2")
        if min(eval_size, train_size or 1) < 1:
            raise ValueError("train_size and eval_size must be at least 1")
        self.steps = steps
        self.train_size = train_size
        self.eval_size = eval_size
        self.data_seed = data_seed
        self._visits = Visits(order)

    def batch_count(self, split: Split, *, batch_size: int) -> int | None:
        check_split(split)
        if split != "train":
            return len(_LABELS) * pass_count(self.eval_size, batch_size)
        return self.train_size and self._visits.count(self.train_size, batch_size)

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
        place = draws.key("addition", self.steps, self.data_seed, split)
        label = "paper"
        if split != "train":
            which, index = divmod(index, pass_count(self.eval_size, batch_size))
            label = _LABELS[which]
            place = draws.key(place, label)
            rows = in_order(index, size=self.eval_size, batch_size=batch_size, device=self.device)
        else:
            if self.train_size is None:
                place = draws.key(place, "fresh", seed)
            rows = self._visits.rows(
                index, size=self.train_size, batch_size=batch_size, seed=seed, device=self.device
            )
        mine, mask, world = share(rows, shard)
        numbers = draws.uniform(draws.key(place, "numbers"), mine, slots=self.steps)
        inputs, targets = mark(numbers, self._marks(place, mine, label=label))
        return Batch(inputs, targets, mask=mask, denominator=len(rows) / world, label=label)

    def _marks(self, place: int, rows: Tensor, *, label: str) -> Tensor:
        half = self.steps // 2
        halves, anywhere = (half, self.steps - half), (self.steps, self.steps - 1)
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
        return {
            "task": self.name,
            "steps": self.steps,
            "train_size": self.train_size,
            "eval_size": self.eval_size,
            "order": self._visits.order,
            "data_seed": self.data_seed,
        }


def mark(
    numbers: Float[Tensor, "T B"], marks: Int[Tensor, "2 B"]
) -> tuple[Float[Tensor, "T B 2"], Float[Tensor, " B"]]:
    """Inputs and sums for the numbers and the two steps of each sequence that are marked."""
    marked = torch.zeros_like(numbers).scatter_(0, marks, 1.0)
    return torch.stack((numbers, marked), dim=-1), numbers.gather(0, marks).sum(0)
