"""Permutation-invariant MNIST for feed-forward networks: all pixels at once."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from passnet.config.tasks import FlatMnistTask
from passnet.tasks.digit_task import DigitTask
from passnet.tasks.labels import class_totals, cross_entropy, finish_classes
from passnet.tasks.task import Batch, Split, Totals, widened


@final
class FlatMNIST(DigitTask):
    """784 grey values in [0, 1] and one of ten digits, under the squared hinge loss or another.

    The squared hinge sums max(0, 1 - t y)**2 over the classes, t = 1 for the digit and -1 for the
    others.
    """

    name = "flat_mnist"
    readout = "flat"

    def __init__(self, given: FlatMnistTask, *, data_dir: str | None = None) -> None:
        super().__init__(given, data_dir=data_dir)
        self.given = given
        self.input_size = self.pixels

    def _inputs(self, images: Tensor) -> Tensor:
        return images.to(torch.float32) / 255

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        if self.given.loss == "cross_entropy":
            return cross_entropy(outputs, batch, smoothing=self.given.label_smoothing)
        return batch.mean(squared_hinge(widened(outputs), batch.targets))

    def penalty(self, output_weight: Tensor) -> Tensor | None:
        if self.given.l2 is None:
            return None
        square = output_weight.square().sum()
        return self.given.l2 * (square if self.given.l2_of == "square" else square.sqrt())

    @torch.no_grad()
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        hinge = squared_hinge(widened(outputs), batch.targets)
        return class_totals(outputs, batch, costs={"hinge": hinge.double()})

    def finish(self, totals: Totals) -> dict[str, float]:
        return finish_classes(totals, names={"hinge": "squared_hinge"})

    def chance(self, split: Split = "test") -> dict[str, float]:
        scores = super().chance(split)
        return {name: scores[name] for name in ("accuracy", "error_percent")}


def squared_hinge(
    outputs: Float[Tensor, "B classes"],
    targets: Int[Tensor, " B"] | Float[Tensor, "B classes"],
) -> Float[Tensor, " B"]:
    """The squared hinge loss, summed over the classes; of a class, or of shares of classes."""
    if targets.ndim == 1:
        signs = functional.one_hot(targets, outputs.shape[-1]).to(outputs.dtype) * 2 - 1
        return (1 - signs * outputs).clamp(min=0).square().sum(-1)
    low, high = (1 - outputs).clamp(min=0).square(), (1 + outputs).clamp(min=0).square()
    return torch.lerp(high, low, targets.to(outputs.dtype)).sum(-1)
