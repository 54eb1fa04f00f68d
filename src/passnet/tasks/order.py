"""In which order the rows of a data set are visited, as a pure function of (seed, epoch, k)."""

from __future__ import annotations

from collections import OrderedDict
from typing import final

import torch
from torch import Tensor

from passnet.config.tasks import Order
from passnet.tasks import draws

# Runs with different seeds may take turns with one task; each needs its own epoch's order.
_KEPT = 16


@final
class Visits:
    """Rows of training batches: shuffled each epoch, shuffled once, or in the order of the file.

    Training leaves out the last size mod batch_size rows of an epoch unless `keep_partial`. Where
    the size is None, rows are fresh: no row ever comes twice.
    """

    def __init__(self, order: Order, *, keep_partial: bool = False) -> None:
        self.order: Order = order
        self.keep_partial = keep_partial
        self._drawn: OrderedDict[object, Tensor] = OrderedDict()

    def count(self, size: int, batch_size: int) -> int:
        """Training batches in an epoch over `size` rows."""
        whole = pass_count(size, batch_size)
        count = whole if self.keep_partial else size // batch_size
        if count == 0:
            raise ValueError(
                f"batch_size={batch_size} is larger than the {size} training examples: "
                f"use a batch of at most {size}"
            )
        return count

    def rows(
        self, index: int, *, size: int | None, batch_size: int, seed: int, device: torch.device
    ) -> Tensor:
        """The rows of training batch `index`, counted over all epochs."""
        if size is None:
            return torch.arange(index * batch_size, (index + 1) * batch_size, device=device)
        epoch, k = divmod(index, self.count(size, batch_size))
        low, high = k * batch_size, min((k + 1) * batch_size, size)
        if self.order == "file":
            return torch.arange(low, high, device=device)
        epoch = epoch if self.order == "shuffled" else 0
        name = (size, seed, epoch, device)
        if name not in self._drawn:
            self._drawn[name] = draws.shuffled(draws.key("order", seed, epoch), size, device=device)
            if len(self._drawn) > _KEPT:
                self._drawn.popitem(last=False)
        return self._drawn[name][low:high]


def pass_count(size: int, batch_size: int) -> int:
    """Batches in one pass over `size` rows, the last of which may be smaller."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: expected at least 1")
    return -(-size // batch_size)


def in_order(index: int, *, size: int, batch_size: int, device: torch.device) -> Tensor:
    """The rows of evaluation batch `index`; the last batch may be smaller."""
    return torch.arange(index * batch_size, min((index + 1) * batch_size, size), device=device)
