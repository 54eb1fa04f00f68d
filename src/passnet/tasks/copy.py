"""The memory task: repeat ten symbols after a long gap, in three forms."""

from __future__ import annotations

import math
from typing import Literal, final

import torch
from torch import Tensor

from passnet.tasks import draws
from passnet.tasks.labels import step_nats
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
)

Form = Literal["fixed", "variable_length", "variable_lag"]

SYMBOLS, BLANK, RUN = 8, 8, 9
STAGES = 10
"""Lags of a curriculum before the full one."""


@final
class Copy(Task):
    """Symbols 0-7 to remember, blank 8, run 9; T = lag + 2 * length steps, all of them scored.

    form: "fixed"; "variable_length" draws the number of symbols from 1 .. length (Danihelka);
        "variable_lag" draws the gap from 1 .. lag (Henaff). Blanks fill what is left.
    train_size: a data set drawn once from `data_seed`, or None for fresh data at every update.
    curriculum: updates over which the lag of training grows to `lag`, in stages of equal length and
        ever longer lags, each the same multiple of the one before.
    `valid` and `test` are two sets of `eval_size`, drawn from `data_seed`; the paper used one set.
    `chance` knows which steps ask for a symbol, but not which symbol.
    """

    name = "copy"
    input_size = 10
    output_size = 10
    readout = "steps"

    def __init__(
        self,
        *,
        form: Form = "fixed",
        lag: int = 500,
        length: int = 10,
        train_size: int | None = 100_000,
        eval_size: int = 10_000,
        order: Order = "shuffled",
        data_seed: int = 0,
        curriculum: int | None = None,
    ) -> None:
        super().__init__()
        if form not in ("fixed", "variable_length", "variable_lag"):
            raise ValueError(
                f"form={form!r}: expected 'fixed', 'variable_length' or 'variable_lag'"
            )
        if min(lag, length, eval_size, train_size or 1, curriculum or 1) < 1:
            raise ValueError("lag, length, train_size, eval_size and curriculum must be at least 1")
        self.form: Form = form
        self.lag = lag
        self.length = length
        self.steps = lag + 2 * length
        self.train_size = train_size
        self.eval_size = eval_size
        self.data_seed = data_seed
        self.curriculum = curriculum
        self.rows_stand_alone = curriculum is None
        self._visits = Visits(order)

    def batch_count(self, split: Split, *, batch_size: int) -> int | None:
        check_split(split)
        if split != "train":
            return pass_count(self.eval_size, batch_size)
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
        place = draws.key("copy", self.form, self.lag, self.length, self.data_seed, split)
        if split != "train":
            rows = in_order(index, size=self.eval_size, batch_size=batch_size, device=self.device)
        else:
            if self.train_size is None:
                place = draws.key(place, "fresh", seed)
            rows = self._visits.rows(
                index, size=self.train_size, batch_size=batch_size, seed=seed, device=self.device
            )
        mine, mask, world = share(rows, shard)
        lag = self.lag_at(index) if split == "train" else self.lag
        inputs, targets = self._examples(place, mine, lag)
        denominator = len(inputs) * len(rows) / world
        return Batch(inputs, targets, mask=mask, denominator=denominator)

    def lag_at(self, update: int) -> int:
        """The lag of the training batch of an update."""
        if self.curriculum is None or update >= self.curriculum:
            return self.lag
        stage = update * STAGES // self.curriculum
        return round(self.lag ** ((stage + 1) / (STAGES + 1)))

    def _examples(self, place: int, rows: Tensor, lag: int) -> tuple[Tensor, Tensor]:
        symbols = draws.integers(draws.key(place, "symbols"), rows, slots=self.length, high=SYMBOLS)
        lengths = torch.full_like(rows, self.length)
        lags = torch.full_like(rows, lag)
        if self.form == "variable_length":
            drawn = draws.integers(draws.key(place, "length"), rows, slots=1, high=self.length)
            lengths = drawn[0] + 1
        elif self.form == "variable_lag":
            lags = draws.integers(draws.key(place, "lag"), rows, slots=1, high=lag)[0] + 1
        return arrange(symbols, lengths, lags=lags, steps=lag + 2 * self.length)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return batch.mean(step_nats(outputs, batch.targets))

    @torch.no_grad()
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        counts = batch.counted(torch.ones_like(batch.targets, dtype=torch.float64))
        asked = counts * (batch.targets != BLANK)
        right = (outputs.argmax(-1) == batch.targets).double()
        nats = step_nats(outputs, batch.targets).double()
        return Totals(
            {
                "nats": (nats * counts).sum(),
                "steps": counts.sum(),
                "right": (right * counts).sum(),
                "asked": asked.sum(),
                "recalled": (right * asked).sum(),
            }
        )

    def finish(self, totals: Totals) -> dict[str, float]:
        sums = {name: value.item() for name, value in totals.sums.items()}
        return {
            "cross_entropy_nats": sums["nats"] / sums["steps"],
            "accuracy": sums["right"] / sums["steps"],
            "accuracy_on_symbols": sums["recalled"] / sums["asked"],
        }

    def chance(self, split: Split = "test") -> dict[str, float]:
        check_split(split)
        asked = (self.length + 1) / 2 if self.form == "variable_length" else self.length
        return {
            "cross_entropy_nats": asked * math.log(SYMBOLS) / self.steps,
            "accuracy": 1 - asked * (1 - 1 / SYMBOLS) / self.steps,
            "accuracy_on_symbols": 1 / SYMBOLS,
        }

    def record(self) -> dict[str, object]:
        return {
            "task": self.name,
            "form": self.form,
            "lag": self.lag,
            "length": self.length,
            "steps": self.steps,
            "train_size": self.train_size,
            "eval_size": self.eval_size,
            "order": self._visits.order,
            "data_seed": self.data_seed,
            "curriculum": self.curriculum,
        }


def arrange(symbols: Tensor, lengths: Tensor, lags: Tensor, *, steps: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets [steps, B] for symbols [length, B] of which `lengths` [B] are used.

    The run symbol stands `lags` steps after the last symbol, and the answer begins one step later.
    """
    step = torch.arange(steps, device=symbols.device).unsqueeze(1)
    since = step - (lengths + lags)
    last = len(symbols) - 1
    shown = symbols.gather(0, step.clamp(max=last).expand_as(since))
    inputs = torch.where(step < lengths, shown, BLANK).masked_fill(since == -1, RUN)
    asked = symbols.gather(0, since.clamp(0, last))
    targets = torch.where((since >= 0) & (since < lengths), asked, BLANK)
    return inputs, targets
