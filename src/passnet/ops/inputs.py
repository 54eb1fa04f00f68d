"""What drives a scan from outside: features or symbols, through the input matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear

from passnet.equations.rows import row_products
from passnet.ops.transforms import transformed


def needs_gradient(x: Tensor) -> bool:
    """Whether inputs are features that want one; inside a transform a tensor does not say."""
    return x.is_floating_point() and (x.requires_grad or transformed())


@dataclass(frozen=True)
class Inputs:
    """All that is parallel in time: `drive()` is one large product over every step.

    Symbols stand for one-hot vectors; `scale` multiplies what a symbol contributes (features are
    scaled themselves). A scan that is given these, not their drive, keeps them alone for its
    backward: they are far smaller.
    """

    x: Float[Tensor, "T B m"] | Int[Tensor, "T B"]
    weight: Float[Tensor, "G n m"]
    bias: Float[Tensor, "G n"] | None = None
    scale: Float[Tensor, "T B"] | None = None
    needs_gradient: bool = False
    """Whether the features have one; the matrices and biases always do."""

    @property
    def shape(self) -> torch.Size:
        """That of the drive."""
        gates, units, _ = self.weight.shape
        return torch.Size((gates, *self.x.shape[:2], units))

    @property
    def dtype(self) -> torch.dtype:
        return self.weight.dtype

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All there are."""
        return self.x, self.weight, self.bias, self.scale

    def drive(self, out: Float[Tensor, "G T B n"] | None = None) -> Float[Tensor, "G T B n"]:
        """What inputs and biases give to every gate at every step; written to `out`, if given."""
        bias = None if self.bias is None else self.bias.unsqueeze(1)
        flat = None if out is None else out.view(len(out), -1, out.shape[-1])
        if self.x.is_floating_point():
            rows = self.x.reshape(1, -1, self.x.shape[-1]).expand(len(self.weight), -1, -1)
            matrix = self.weight.mT
            if bias is None:
                return torch.bmm(rows, matrix, out=flat).reshape(self.shape)
            return torch.baddbmm(bias, rows, matrix, out=flat).reshape(self.shape)
        tables = self.weight.mT
        if self.scale is None and bias is not None:
            tables = tables + bias
        found = torch.index_select(tables, 1, self.x.flatten(), out=flat)
        if self.scale is not None:
            found = torch.mul(found, self.scale.reshape(1, -1, 1), out=flat)
            found = found if bias is None else torch.add(found, bias, out=flat)
        return found.reshape(self.shape)

    def drive_in(self, steps: slice) -> Float[Tensor, "G t B n"]:
        """`drive()[:, steps]` of features, as one product with the gates of a row side by side."""
        bias = None if self.bias is None else self.bias.flatten()
        rows = linear(self.x[steps], self.weight.flatten(0, 1), bias)
        return rows.unflatten(-1, (len(self.weight), -1)).movedim(-2, 0)

    def gradients(self, grad: Float[Tensor, "G T B n"]) -> tuple[Tensor, Tensor | None]:
        """Those of the matrices and of the biases, by large products."""
        rows = grad.flatten(1, 2)
        bias = None if self.bias is None else rows.sum(1)
        if self.x.is_floating_point():
            return row_products(rows, self.x.reshape(1, -1, self.x.shape[-1])), bias
        if self.scale is not None:
            rows = rows * self.scale.reshape(1, -1, 1)
        tables = rows.new_zeros(self.weight.mT.shape)
        return tables.index_add_(1, self.x.flatten(), rows).mT.contiguous(), bias

    def features_gradient(self, grad: Float[Tensor, "G T B n"]) -> Float[Tensor, "T B m"]:
        """That of the features."""
        return torch.matmul(grad.flatten(1, 2), self.weight).sum(0).reshape(self.x.shape)


Source = Tensor | Inputs
"""A drive, or the inputs it is formed from."""


def take_apart(source: Source) -> tuple[str, list[Tensor], dict[str, Tensor]]:
    """(a word for `put_together`, tensors with gradients, constants by name)."""
    if isinstance(source, Tensor):
        return "drive", [source], {}
    if source.needs_gradient:
        word, live, fixed = "x+weight", [source.x, source.weight], {}
    else:
        word, live, fixed = "weight", [source.weight], {"x": source.x}
    if source.bias is not None:
        word, live = word + "+bias", [*live, source.bias]
    if source.scale is not None:
        fixed["scale"] = source.scale
    return word, live, fixed


def put_together(
    word: str, live: Sequence[Tensor], fixed: dict[str, Tensor]
) -> tuple[Source, Sequence[Tensor]]:
    """(what `take_apart` took apart, the tensors of `live` that follow); takes from `fixed`."""
    if word == "drive":
        return live[0], live[1:]
    needs_gradient, biased = word[0] == "x", word[-4:] == "bias"
    x = live[0] if needs_gradient else fixed.pop("x")
    weight, count = live[needs_gradient], needs_gradient + 1 + biased
    bias = live[count - 1] if biased else None
    return Inputs(x, weight, bias, fixed.pop("scale", None), needs_gradient), live[count:]
