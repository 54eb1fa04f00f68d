"""Permutation-invariant MNIST for feed-forward networks: all pixels at once."""

from __future__ import annotations

from typing import Literal, Unpack, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from passnet.tasks.digit_task import DigitOptions, DigitTask
from passnet.tasks.labels import class_totals, cross_entropy, finish_classes
from passnet.tasks.task import Batch, Split, Totals, widened


@final
class FlatMNIST(DigitTask):
    """784 grey values in [0, 1] and one of ten digits, under the squared hinge loss.

    The loss sums max(0, 1 - t y)**2 over the classes, t = 1 for the digit and -1 for the others;
    with loss="cross_entropy" it is that, for which there is `label_smoothing`.
    l2: weight of the penalty on the output matrix, or None; `l2_of` is the "square" of its norm, as
        the paper says, or the "norm", as the author's script has it.
    options: see `DigitTask`.
    """

    name = "flat_mnist"
    readout = "flat"

    def __init__(
        self,
        *,
        l2: float | None = 1e-3,
        l2_of: Literal["square", "norm"] = "square",
        loss: Literal["squared_hinge", "cross_entropy"] = "squared_hinge",
        **options: Unpack[DigitOptions],
    ) -> None:
        super().__init__(**options)
        if loss not in ("squared_hinge", "cross_entropy"):
            raise ValueError(f"loss={loss!r}: expected 'squared_hinge' or 'cross_entropy'")
        if self.label_smoothing and loss != "cross_entropy":
            raise ValueError(
                f"label_smoothing={self.label_smoothing} needs loss='cross_entropy', not {loss!r}"
            )
        if l2_of not in ("square", "norm"):
            raise ValueError(f"l2_of={l2_of!r}: expected 'square' or 'norm'")
        self.input_size = self.pixels
        self.l2 = l2
        self.loss_name = loss
        self.l2_of: Literal["square", "norm"] = l2_of

    def _inputs(self, images: Tensor) -> Tensor:
        return images.to(torch.float32) / 255

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        if self.loss_name == "cross_entropy":
            return cross_entropy(outputs, batch, smoothing=self.label_smoothing)
        return batch.mean(squared_hinge(widened(outputs), batch.targets))

    def penalty(self, output_weight: Tensor) -> Tensor | None:
        if self.l2 is None:
            return None
        square = output_weight.square().sum()
        return self.l2 * (square if self.l2_of == "square" else square.sqrt())

    @torch.no_grad()
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        hinge = squared_hinge(widened(outputs), batch.targets)
        return class_totals(outputs, batch, costs={"hinge": hinge.double()})

    def finish(self, totals: Totals) -> dict[str, float]:
        return finish_classes(totals, names={"hinge": "squared_hinge"})

    def chance(self, split: Split = "test") -> dict[str, float]:
        scores = super().chance(split)
        return {name: scores[name] for name in ("accuracy", "error_percent")}

    def record(self) -> dict[str, object]:
        return super().record() | {"l2": self.l2, "l2_of": self.l2_of, "loss": self.loss_name}


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
