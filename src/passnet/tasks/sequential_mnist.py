"""Sequential MNIST: a digit shown one pixel a step, in reading order or permuted."""

from __future__ import annotations

from typing import Unpack, final

import torch
from torch import Tensor
from torch.nn import functional

from passnet.tasks.digit_task import DigitOptions, DigitTask
from passnet.tasks.labels import class_totals, cross_entropy, finish_classes
from passnet.tasks.permutations import Permutation, digest, pixels
from passnet.tasks.task import Batch, Totals, widened


@final
class SequentialMNIST(DigitTask):
    """One grey value in [0, 1] a step, one of ten digits after the last.

    permutation: "author" or "common" (see `permutations`), or None for reading order.
    options: see `DigitTask`.
    """

    name = "sequential_mnist"
    input_size = 1
    readout = "last"

    def __init__(
        self, *, permutation: Permutation | None = "author", **options: Unpack[DigitOptions]
    ) -> None:
        super().__init__(**options)
        self.steps = self.pixels
        self.permutation: Permutation | None = permutation
        self._places = None if permutation is None else pixels(permutation, self.steps)

    def _prepared(self, images: Tensor) -> Tensor:
        return images if self._places is None else images[:, self._places].contiguous()

    def _inputs(self, images: Tensor) -> Tensor:
        return (images.t().to(torch.float32) / 255).unsqueeze(-1).contiguous()

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return cross_entropy(outputs, batch, smoothing=self.label_smoothing)

    @torch.no_grad()
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        nats = functional.cross_entropy(widened(outputs), batch.targets, reduction="none")
        return class_totals(outputs, batch, costs={"nats": nats.double()})

    def finish(self, totals: Totals) -> dict[str, float]:
        return finish_classes(totals, names={"nats": "cross_entropy_nats"})

    def record(self) -> dict[str, object]:
        return super().record() | {
            "steps": self.steps,
            "permutation": self.permutation,
            "permutation_pixels": self._places,
            "permutation_sha256": None if self._places is None else digest(self._places),
        }
