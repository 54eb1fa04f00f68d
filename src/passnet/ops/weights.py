"""Weight gradients after a scan: each is one product over the rows of all steps together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from passnet.equations import Structure
from passnet.ops.maps import GateMaps


class Product(NamedTuple):
    """What a range of gates did at every step: their inputs and the gradient of their outputs."""

    inputs: Tensor
    grads: Tensor
    gates: slice


OneProduct = Callable[[Structure, Tensor, Tensor, Sequence[Tensor]], tuple[Tensor, ...]]
"""(structure, inputs [g or 1, N, n], grads [g, N, n], factors) -> the gradient of each factor."""


def plain_product(
    structure: Structure, inputs: Tensor, grads: Tensor, factors: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The structure's own gradients, as large matrix products."""
    return structure.gradients(inputs, grads, *factors)


def factor_gradients(
    maps: GateMaps, products: Sequence[Product], one_product: OneProduct
) -> list[Tensor]:
    """The gradient of every factor; `products` cover all gates, in order.

    `inputs` is `[g or 1, T, B, n]`, `grads` is `[g, T, B, n]`.
    """
    dtype = maps.factors[0].dtype
    found = [
        one_product(
            maps.structure,
            part.inputs.flatten(1, 2).to(dtype),
            part.grads.flatten(1, 2).to(dtype),
            maps.select(part.gates),
        )
        for part in products
    ]
    return [
        torch.stack(grads).sum(0) if factor.shape[0] == 1 else torch.cat(grads)
        for factor, grads in zip(maps.factors, zip(*found, strict=True), strict=True)
    ]
