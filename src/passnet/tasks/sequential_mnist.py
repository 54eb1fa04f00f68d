"""Sequential MNIST: a digit shown one pixel a step, in reading order or permuted."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from passnet.config.tasks import SequentialMnistTask
from passnet.tasks.digit_task import DigitTask
from passnet.tasks.labels import class_totals, cross_entropy, finish_classes
from passnet.tasks.permutations import digest, pixels
from passnet.tasks.task import Batch, Totals, widened


@final
class SequentialMNIST(DigitTask):
    """One grey value in [0, 1] a step, one of ten digits after the last.

    `permutations` says how its permutations came about.
    """

    name = "sequential_mnist"
    input_size = 1
    readout = "last"

    def __init__(self, given: SequentialMnistTask, *, data_dir: str | None = None) -> None:
        super().__init__(given, data_dir=data_dir)
        named = given.permutation
        self._places = None if named is None else pixels(named, self.pixels)

    def _prepared(self, images: Tensor) -> Tensor:
        return images if self._places is None else images[:, self._places].contiguous()

    def _inputs(self, images: Tensor) -> Tensor:
        return (images.t().to(torch.float32) / 255).unsqueeze(-1).contiguous()

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return cross_entropy(outputs, batch, smoothing=self.given.label_smoothing)

    @torch.no_grad()
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        nats = functional.cross_entropy(widened(outputs), batch.targets, reduction="none")
        return class_totals(outputs, batch, costs={"nats": nats.double()})

    def finish(self, totals: Totals) -> dict[str, float]:
        return finish_classes(totals, names={"nats": "cross_entropy_nats"})

    def record(self) -> dict[str, object]:
        return super().record() | {
            "steps": self.pixels,
            "permutation_pixels": self._places,
            "permutation_sha256": None if self._places is None else digest(self._places),
        }
