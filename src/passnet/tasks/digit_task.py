"""What the two digit tasks share: images on the device, batches of rows, and the chance level."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypedDict

import torch
from torch import Tensor
from torch.nn import functional

from passnet.config.tasks import SYNTHETIC_SIZES
from passnet.tasks import draws
from passnet.tasks.digits import Source, load
from passnet.tasks.labels import prior_scores
from passnet.tasks.order import Order, Visits, in_order, pass_count
from passnet.tasks.task import Batch, Shard, Split, Task, check_index, check_split, share


class DigitOptions(TypedDict, total=False):
    """The arguments of a `DigitTask`."""

    source: Source
    pool: int
    order: Order
    data_dir: str | None
    check: bool
    sizes: tuple[int, int, int]
    label_smoothing: float
    mixup: float
    hold_out: bool


class DigitTask(Task):
    """Name the digit of an image. Data are read at the first use.

    source: "mnist" (50 000 / 10 000 / 10 000 digits), or "synthetic", which needs no data.
    pool: averages squares of pixels first, for pool**2 times fewer of them.
    order: of training digits: "shuffled" anew in each epoch, "fixed" for shuffled once, or "file".
    data_dir: where MNIST's files are looked for first; then in PASSNET_DATA and the user's cache.
    check: whether MNIST's files are compared with their published SHA-256.
    sizes: how many synthetic digits there are of training, validation and test.
    label_smoothing: the share of a training target that all digits have in common.
    mixup: in training a second digit is laid over each one, as strongly as a number between 0 and
        `mixup` says, and has the same share of the target; 0 for none, at most a half.
    hold_out: False trains on the validation digits, too.
    `chance` knows how often each digit occurs in training, and sees no pixel.
    """

    output_size = 10
    rows_stand_alone = True

    def __init__(
        self,
        *,
        source: Source = "mnist",
        pool: int = 1,
        order: Order = "shuffled",
        data_dir: str | None = None,
        check: bool = True,
        sizes: tuple[int, int, int] = SYNTHETIC_SIZES,
        label_smoothing: float = 0.0,
        mixup: float = 0.0,
        hold_out: bool = True,
    ) -> None:
        super().__init__()
        if source not in ("mnist", "synthetic"):
            raise ValueError(f"source={source!r}: expected 'mnist' or 'synthetic'")
        if pool < 1 or 28 % pool:
            raise ValueError(f"pool={pool}: expected a divisor of 28")
        if min(sizes) < 1:
            raise ValueError(f"sizes={sizes}: expected three numbers of at least 1")
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing={label_smoothing}: expected a share below 1")
        if not 0 <= mixup <= 0.5:
            raise ValueError(f"mixup={mixup}: expected a share of at most 0.5")
        self.source: Source = source
        self.label_smoothing, self.mixup = label_smoothing, mixup
        self.pool, self.holds_out = pool, hold_out
        self.pixels = (28 // pool) ** 2
        self._data_dir, self._check, self._sizes = data_dir, check, sizes
        self._visits = Visits(order)

    def _data(self, name: str) -> Tensor:
        if not self._store:
            splits = load(
                self.source, data_dir=self._data_dir, check=self._check, sizes=self._sizes
            )
            if not self.holds_out:
                splits["train"] = splits["train"].followed_by(splits["valid"])
            for split, digits in splits.items():
                images = self._prepared(digits.pooled(self.pool).images.flatten(1))
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
        if train and self.mixup:
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
        weight = draws.uniform(draws.key("mixup share", seed), places, slots=1).t() * self.mixup
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
            "source": self.source,
            "pool": self.pool,
            "order": self._visits.order,
            "sizes": list(self._sizes) if self.source == "synthetic" else None,
            "label_smoothing": self.label_smoothing,
            "mixup": self.mixup,
            "hold_out": self.holds_out,
        }


def _shares(labels: Tensor) -> Tensor:
    return functional.one_hot(labels, DigitTask.output_size).to(torch.float32)
