"""Character language model of a stream: the state is carried on, as in the paper's LSTM runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from passnet.config.tasks import CharacterTask
from passnet.tasks.character import Character
from passnet.tasks.corpus import END
from passnet.tasks.data import DataError
from passnet.tasks.order import pass_count
from passnet.tasks.task import (
    Batch,
    Shard,
    Split,
    Totals,
    check_index,
    check_split,
    share,
)


@final
class CharacterStream(Character):
    """The text as one stream, in as many lanes as the batch is wide, `window` steps at a time.

    The state left by a window is the initial state of the next; each epoch begins with a fresh one.
    Training leaves out what does not fill the lanes and windows. Evaluation scores every target;
    each of its lanes begins without a past, so fewer lanes give the model a little more to go by.
    """

    name = "character_stream"

    def __init__(self, given: CharacterTask, *, data_dir: str | None = None) -> None:
        super().__init__(given, data_dir=data_dir)
        assert given.window is not None
        self.window = given.window
        for split in ("train", "valid", "test"):
            ends = (self._store[split] == END).long()
            # The end of a line belongs to the line: the sentence of a target is the number of ends
            # before it, not counting the one the text begins with.
            self._store[f"{split}_sentences"] = torch.cumsum(ends, 0)[:-1] - 1

    def _kept(self, split: str, lines: Sequence[str]) -> Sequence[str]:
        del split
        return lines

    def batch_count(self, split: Split, *, batch_size: int) -> int:
        check_split(split)
        if split != "train":
            return self._pass_count(split, batch_size=batch_size)
        targets = self._facts["train"]["targets"]
        count = targets // batch_size // self.window
        if count == 0:
            raise DataError(
                f"the {targets} training characters do not fill batch_size={batch_size} lanes of "
                f"window={self.window}: use fewer lanes, a shorter window or a longer text"
            )
        return count

    def batch(
        self,
        split: Split,
        index: int,
        *,
        batch_size: int,
        seed: int = 0,
        shard: Shard | None = None,
    ) -> Batch:
        # The order of a stream is that of the text: there is nothing to draw.
        del seed
        count = self.batch_count(split, batch_size=batch_size)
        check_index(index, count, split)
        if split != "train":
            return self._pass_batch(split, index, batch_size=batch_size, shard=shard)
        lane = self._facts["train"]["targets"] // batch_size
        return self._gather(split, index % count, lane, batch_size, shard, self.window)

    def _pass_count(self, split: Split, *, batch_size: int) -> int:
        return pass_count(self._lane(split, batch_size), self.window)

    def _lane(self, split: str, batch_size: int) -> int:
        return pass_count(self._facts[split]["targets"], batch_size)

    def _pass_batch(
        self, split: Split, index: int, *, batch_size: int, shard: Shard | None
    ) -> Batch:
        lane = self._lane(split, batch_size)
        steps = min(self.window, lane - index * self.window)
        return self._gather(split, index, lane, batch_size, shard, steps)

    def _gather(
        self, split: str, k: int, lane: int, batch_size: int, shard: Shard | None, steps: int
    ) -> Batch:
        mine, none, world = share(torch.arange(batch_size, device=self.device), shard)
        step = torch.arange(k * self.window, k * self.window + steps, device=self.device)
        place = mine * lane + step.unsqueeze(1)
        targets = self._facts[split]["targets"]
        mask, counted = none, steps * batch_size
        if lane * batch_size > targets:
            inside = place < targets
            mask = inside.to(torch.float32) if none is None else inside * none
            firsts = range(k * self.window, lane * batch_size, lane)
            counted = sum(min(max(targets - first, 0), steps) for first in firsts)
            place = place.clamp(max=targets - 1)
        text = self._store[split]
        return Batch(
            inputs=text[place].long(),
            targets=text[place + 1].long(),
            mask=mask,
            denominator=max(counted, 1) / world,
            carries_state=k > 0,
            groups=self._store[f"{split}_sentences"][place],
            group_count=self._facts[split]["lines"],
        )

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return self._costs(outputs, batch).sum() / batch.denominator

    def _sentence_sums(self, costs: Tensor, counts: Tensor, batch: Batch) -> dict[str, Tensor]:
        assert batch.groups is not None
        zeros = torch.zeros(batch.group_count, dtype=torch.float64, device=costs.device)
        groups = batch.groups.flatten()
        return {
            "sentence_nats": zeros.index_add(0, groups, costs.flatten()),
            "sentence_characters": zeros.index_add(0, groups, counts.flatten()),
        }

    def _sentence_mean(self, totals: Totals) -> float:
        sizes = totals.sums["sentence_characters"]
        return (totals.sums["sentence_nats"] / sizes)[sizes > 0].mean().item()

    def record(self) -> dict[str, object]:
        return super().record() | {"window": self.given.window}
