"""The memory task: repeat ten symbols after a long gap, in three forms."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import final

import torch
from torch import Tensor

from passnet.config.tasks import CopyTask
from passnet.tasks import draws
from passnet.tasks.labels import step_nats
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
)

SYMBOLS, BLANK, RUN = 8, 8, 9
STAGES = 10
"""Lags of a curriculum before the full one."""


@final
class Copy(Task):
    """Symbols 0-7 to remember, blank 8, run 9; T = lag + 2 * length steps, all of them scored.

    The lag of a curriculum grows in stages of equal length, each lag the same multiple of the one
    before. Blanks fill what is left of sequences of variable length or lag.
    `valid` and `test` are two sets of `eval_size`, drawn from `data_seed`; the paper used one set.
    `chance` knows which steps ask for a symbol, but not which symbol.
    """

    name = "copy"
    input_size = 10
    output_size = 10
    readout = "steps"

    def __init__(self, given: CopyTask) -> None:
        super().__init__()
        self.given = given
        self.steps = given.lag + 2 * given.length
        self.rows_stand_alone = given.curriculum is None
        self._visits = Visits(given.order)

    def batch_count(self, split: Split, *, batch_size: int) -> int | None:
        check_split(split)
        if split != "train":
            return pass_count(self.given.eval_size, batch_size)
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
        given, where = self.given, {"batch_size": batch_size, "device": self.device}
        place = draws.key("copy", given.form, given.lag, given.length, given.data_seed, split)
        if split != "train":
            lag, rows = given.lag, in_order(index, size=given.eval_size, **where)
        else:
            if given.train_size is None:
                place = draws.key(place, "fresh", seed)
            lag = self.lag_at(index)
            rows = self._visits.rows(index, size=given.train_size, seed=seed, **where)
        mine, mask, world = share(rows, shard)
        inputs, targets = self._examples(place, mine, lag)
        denominator = len(inputs) * len(rows) / world
        return Batch(inputs, targets, mask=mask, denominator=denominator)

    def lag_at(self, update: int) -> int:
        """The lag of the training batch of an update."""
        lag, curriculum = self.given.lag, self.given.curriculum
        if curriculum is None or update >= curriculum:
            return lag
        stage = update * STAGES // curriculum
        return round(lag ** ((stage + 1) / (STAGES + 1)))

    def _examples(self, place: int, rows: Tensor, lag: int) -> tuple[Tensor, Tensor]:
        form, length = self.given.form, self.given.length
        symbols = draws.integers(draws.key(place, "symbols"), rows, slots=length, high=SYMBOLS)
        lengths = torch.full_like(rows, length)
        lags = torch.full_like(rows, lag)
        if form == "variable_length":
            lengths = draws.integers(draws.key(place, "length"), rows, slots=1, high=length)[0] + 1
        elif form == "variable_lag":
            lags = draws.integers(draws.key(place, "lag"), rows, slots=1, high=lag)[0] + 1
        return arrange(symbols, lengths, lags=lags, steps=lag + 2 * length)

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
        length = self.given.length
        asked = (length + 1) / 2 if self.given.form == "variable_length" else length
        return {
            "cross_entropy_nats": asked * math.log(SYMBOLS) / self.steps,
            "accuracy": 1 - asked * (1 - 1 / SYMBOLS) / self.steps,
            "accuracy_on_symbols": 1 / SYMBOLS,
        }

    def record(self) -> dict[str, object]:
        return {"task": self.name, "steps": self.steps, **asdict(self.given)}


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
