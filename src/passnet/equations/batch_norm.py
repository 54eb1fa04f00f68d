"""Batch normalisation as the author's Highway code had it: epsilon beside the deviation."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

EPSILON = 1e-4
MOMENTUM = 0.1


def normalised(
    x: Float[Tensor, "*stack N features"],
    mean: Float[Tensor, "*stack features"],
    deviation: Float[Tensor, "*stack features"],
) -> Float[Tensor, "*stack N features"]:
    """(x - mean) / (deviation + epsilon)."""
    return (x - mean.unsqueeze(-2)) / (deviation.unsqueeze(-2) + EPSILON)


def scaled_and_shifted(
    x: Float[Tensor, "*stack N features"], scale: Tensor | None, shift: Tensor | None
) -> Float[Tensor, "*stack N features"]:
    """x scale + shift, either of which may be missing."""
    if scale is None:
        return x if shift is None else x + shift.unsqueeze(-2)
    scale = scale.unsqueeze(-2)
    return x * scale if shift is None else torch.addcmul(shift.unsqueeze(-2), x, scale)
