"""Weight gradients after a scan: each is one product over the rows of all steps together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from passnet.ops.cpu.gradients import low_rank_gradients
from passnet.ops.maps import GateMaps


class Product(NamedTuple):
    """What a range of gates did at every step: their inputs and the gradient of their outputs."""

    inputs: Tensor
    grads: Tensor
    gates: slice


def factor_gradients(maps: GateMaps, products: Sequence[Product]) -> list[Tensor]:
    """The gradient of every factor; `products` cover all gates, in order.

    `inputs` is `[g or 1, T, B, n]`, `grads` is `[g, T, B, n]`.
    """
    found = [_gradients(maps, part) for part in products]
    return [
        torch.stack(grads).sum(0) if factor.shape[0] == 1 else torch.cat(grads)
        for factor, grads in zip(maps.factors, zip(*found, strict=True), strict=True)
    ]


def _gradients(maps: GateMaps, part: Product) -> tuple[Tensor, ...]:
    dtype = maps.factors[0].dtype
    inputs, grads = part.inputs.flatten(1, 2).to(dtype), part.grads.flatten(1, 2).to(dtype)
    factors = maps.select(part.gates)
    compiled = low_rank_gradients(maps.structure.name, inputs, grads, factors)
    return maps.structure.gradients(inputs, grads, *factors) if compiled is None else compiled
