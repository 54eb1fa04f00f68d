"""What the two digit tasks share: images on the device, batches of rows, and the chance level."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from passnet.tasks.digits import Source, load
from passnet.tasks.labels import prior_scores
from passnet.tasks.order import Order, Visits, in_order, pass_count
from passnet.tasks.task import Batch, Shard, Split, Task, check_index, check_split, share


class DigitTask(Task):
    """Name the digit of an image. Data are read at the first use.

    source: "mnist" (50 000 / 10 000 / 10 000 digits), or "synthetic", which needs no data and has
        `sizes` digits.
    pool: averages squares of pixels first, for pool**2 times fewer of them.
    `chance` knows how often each digit occurs in training, and sees no pixel.
    """

    output_size = 10
    takes_symbols = False
    rows_stand_alone = True

    def __init__(
        self,
        *,
        source: Source,
        pool: int,
        order: Order,
        data_dir: str | None,
        check: bool,
        sizes: tuple[int, int, int],
    ) -> None:
        super().__init__()
        if source not in ("mnist", "synthetic"):
            raise ValueError(f"source={source!r}: expected 'mnist' or 'synthetic'")
        if pool < 1 or 28 % pool:
            raise ValueError(f"pool={pool}: expected a divisor of 28")
        if min(sizes) < 1:
            raise ValueError(f"sizes={sizes}: expected three numbers of at least 1")
        self.source: Source = source
        self.pool = pool
        self.pixels = (28 // pool) ** 2
        self._data_dir, self._check, self._sizes = data_dir, check, sizes
        self._visits = Visits(order)

    def _data(self, name: str) -> Tensor:
        if not self._store:
            splits = load(
                self.source, data_dir=self._data_dir, check=self._check, sizes=self._sizes
            )
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
        """Inputs of a batch of prepared images [B, pixels] in 0 .. 255."""

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
        return Batch(
            inputs=self._inputs(self._data(f"{split}_images").index_select(0, mine)),
            targets=labels.index_select(0, mine),
            mask=mask,
            denominator=len(rows) / world,
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
        }
