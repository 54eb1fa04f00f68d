"""What the two digit tasks share: images on the device, batches of rows, and the chance level."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn import functional

from passnet.config.tasks import FlatMnistTask, SequentialMnistTask
from passnet.tasks import draws
from passnet.tasks.digits import load
from passnet.tasks.labels import prior_scores
from passnet.tasks.order import Visits, in_order, pass_count
from passnet.tasks.task import Batch, Shard, Split, Task, check_index, check_split, share


class DigitTask(Task):
    """Name the digit of an image. Data are read at the first use.

    data_dir: where MNIST's files are looked for first; then in PASSNET_DATA and the user's cache.
    `chance` knows how often each digit occurs in training, and sees no pixel.
    """

    output_size = 10
    rows_stand_alone = True

    def __init__(
        self, given: SequentialMnistTask | FlatMnistTask, *, data_dir: str | None = None
    ) -> None:
        super().__init__()
        self.given = given
        self.holds_out = given.hold_out
        self.pixels = (28 // given.pool) ** 2
        self._data_dir = data_dir
        self._visits = Visits(given.order)

    def _data(self, name: str) -> Tensor:
        if not self._store:
            splits = load(self.given, data_dir=self._data_dir)
            if not self.holds_out:
                splits["train"] = splits["train"].followed_by(splits["valid"])
            for split, digits in splits.items():
                images = self._prepared(digits.pooled(self.given.pool).images.flatten(1))
                self._store[f"{split}_images"] = images.to(self.device)
                self._store[f"{split}_labels"] = digits.labels.to(self.device)
        return self._store[name]

    def _prepared(self, images: Tensor) -> Tensor:
        """What is kept of all images [count, pixels], once."""
        return images

    @abstractmethod
    def _inputs(self, images: Tensor) -> Tensor:
        """Inputs of a batch of prepared images [B, pixels] in 0 .. 255, whole numbers or not."""

    def batch_count(self, split: Split, *, batch_size: int) -> int:
        check_split(split)
        size = len(self._data(f"{split}_labels"))
        if split == "train":
            return self._visits.count(size, batch_size)
        return pass_count(size, batch_size)

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
        labels = self._data(f"{split}_labels")
        where = {"size": len(labels), "batch_size": batch_size, "device": self.device}
        train = split == "train"
        rows = self._visits.rows(index, seed=seed, **where) if train else in_order(index, **where)
        mine, mask, world = share(rows, shard)
        images = self._data(f"{split}_images").index_select(0, mine)
        targets = labels.index_select(0, mine)
        if train and self.given.mixup:
            first = index * batch_size
            places = torch.arange(first, first + len(rows), device=self.device)
            images, targets = self._mixed(images, targets, share(places, shard)[0], seed)
        return Batch(
            inputs=self._inputs(images),
            targets=targets,
            mask=mask,
            denominator=len(rows) / world,
        )

    def _mixed(
        self, images: Tensor, targets: Tensor, places: Tensor, seed: int
    ) -> tuple[Tensor, Tensor]:
        """Each digit under another one; `places` count the digits seen since training began."""
        labels = self._data("train_labels")
        others = draws.integers(
            draws.key("mixup other", seed), places, slots=1, high=len(labels)
        ).squeeze(0)
        weight = (
            draws.uniform(draws.key("mixup share", seed), places, slots=1).t() * self.given.mixup
        )
        return (
            torch.lerp(
                images.to(torch.float32),
                self._data("train_images").index_select(0, others).to(torch.float32),
                weight,
            ),
            torch.lerp(_shares(targets), _shares(labels.index_select(0, others)), weight),
        )

    def chance(self, split: Split = "test") -> dict[str, float]:
        check_split(split)
        return prior_scores(self._data("train_labels"), self._data(f"{split}_labels"))

    def record(self) -> dict[str, object]:
        return {
            "task": self.name,
            **asdict(self.given),
            "sizes": list(self.given.sizes) if self.given.source == "synthetic" else None,
        }


def _shares(labels: Tensor) -> Tensor:
    return functional.one_hot(labels, DigitTask.output_size).to(torch.float32)
