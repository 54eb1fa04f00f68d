"""Character language model of lines: every line begins anew, as in the paper's GRU runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor

from passnet.config.tasks import CharacterTask
from passnet.tasks.character import Character
from passnet.tasks.data import DataError
from passnet.tasks.order import Visits, in_order, pass_count
from passnet.tasks.task import (
    Batch,
    Shard,
    Split,
    Totals,
    check_index,
    check_split,
    share,
)

STEPS = 16
"""Batches of training are padded to a multiple of so many steps."""


@final
class CharacterSentences(Character):
    """One sequence a line, each from the initial state, padded to the longest of its batch.

    Training takes the lines in file order, leaves out those of more than `longest` characters, pads
    on to a multiple of sixteen steps (few shapes, each of which can be a CUDA graph), puts the
    longest lines of a batch first (so that scans can pass over those that have ended), and
    minimises the mean over sentences of each sentence's mean cost, as the paper's GRUs did, or with
    average="character" the mean over characters. Evaluation leaves out nothing.
    """

    name = "character_sentences"

    def __init__(self, given: CharacterTask, *, data_dir: str | None = None) -> None:
        super().__init__(given, data_dir=data_dir)
        self._visits = Visits(given.order, keep_partial=True)
        for split, sizes in self._sizes.items():
            self._store[f"{split}_sizes"] = torch.from_numpy(sizes)
            self._store[f"{split}_starts"] = torch.from_numpy(np.cumsum(sizes) - sizes)

    def _kept(self, split: str, lines: Sequence[str]) -> Sequence[str]:
        longest = self.given.longest if split == "train" else None
        limit = math.inf if longest is None else longest
        kept = [line for line in lines if 0 < len(line) <= limit]
        if not kept:
            raise DataError(
                f"no line of the {split} split of {self.origin} has 1 to {limit} characters: "
                "raise `longest`, or read the text as a stream"
            )
        return kept

    def batch_count(self, split: Split, *, batch_size: int) -> int:
        check_split(split)
        if split == "train":
            return self._visits.count(len(self._sizes[split]), batch_size)
        return self._pass_count(split, batch_size=batch_size)

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
        if split != "train":
            return self._pass_batch(split, index, batch_size=batch_size, shard=shard)
        size = len(self._sizes[split])
        rows = partial(self._visits.rows, index, size=size, batch_size=batch_size, seed=seed)
        return self._gather(split, rows, shard, training=True)

    def _pass_count(self, split: Split, *, batch_size: int) -> int:
        return pass_count(len(self._sizes[split]), batch_size)

    def _pass_batch(
        self, split: Split, index: int, *, batch_size: int, shard: Shard | None
    ) -> Batch:
        rows = partial(in_order, index, size=len(self._sizes[split]), batch_size=batch_size)
        return self._gather(split, rows, shard)

    def _gather(
        self,
        split: Split,
        rows: Callable[..., Tensor],
        shard: Shard | None,
        *,
        training: bool = False,
    ) -> Batch:
        # The CPU must know the longest row to shape the batch. Both sides draw the rows for
        # themselves: sending them over would wait for whatever is queued on the device.
        sizes = self._sizes[split][rows(device=torch.device("cpu")).numpy()]
        mine, none, world = share(rows(device=self.device), shard)
        lengths = self._store[f"{split}_sizes"][mine]
        steps = int(sizes.max())
        if training:
            lengths, order = lengths.sort(descending=True, stable=True)
            mine, steps = mine[order], -(-steps // STEPS) * STEPS
        step = torch.arange(steps, device=self.device).unsqueeze(1)
        inside = step < lengths
        place = self._store[f"{split}_starts"][mine] + step * inside
        text = self._store[split]
        counted = len(sizes) / world
        if self.given.average == "character":
            counted = torch.full((), sizes.sum() / world, device=self.device)
        mask = inside.to(torch.float32)
        return Batch(
            inputs=text[place].long() * inside,
            targets=text[place + 1].long() * inside,
            lengths=lengths,
            mask=mask if none is None else mask * none.to(self.device),
            denominator=counted,
        )

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        costs = self._costs(outputs, batch)
        if self.given.average == "sentence":
            assert batch.lengths is not None
            costs = costs / batch.lengths
        return costs.sum() / batch.denominator

    def _sentence_sums(self, costs: Tensor, counts: Tensor, batch: Batch) -> dict[str, Tensor]:
        sizes = counts.sum(0)
        means = costs.sum(0) / sizes.clamp(min=1)
        return {"sentence_means": means.sum(), "sentences": (sizes > 0).double().sum()}

    def _sentence_mean(self, totals: Totals) -> float:
        return (totals.sums["sentence_means"] / totals.sums["sentences"]).item()

    def record(self) -> dict[str, object]:
        own = {key: getattr(self.given, key) for key in ("longest", "order", "average")}
        return super().record() | own
