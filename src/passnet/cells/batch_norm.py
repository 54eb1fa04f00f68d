"""Batch normalisation as the author's Highway code had it: epsilon beside the deviation."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

EPSILON = 1e-4
MOMENTUM = 0.1


@final
class BatchNorm(nn.Module):
    """(x - mean) / (deviation + 1e-4), over the second-last axis; running averages move by 0.1.

    Statistics, scale and shift have the shape of one row, `[..., features]`. The deviation, not
    the variance, is averaged.
    """

    running_mean: Tensor
    running_deviation: Tensor

    def __init__(
        self, *shape: int, scale: bool = True, shift: bool = True, device=None, dtype=None
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.register_buffer("running_mean", torch.zeros(*shape, **place))
        self.register_buffer("running_deviation", torch.ones(*shape, **place))
        self.scale = nn.Parameter(torch.ones(*shape, **place)) if scale else None
        self.shift = nn.Parameter(torch.zeros(*shape, **place)) if shift else None

    def forward(self, x: Float[Tensor, "*stack N features"]) -> Tensor:
        # Statistics are kept in their own dtype, whatever autocast made of the product before.
        x = x.to(self.running_mean.dtype)
        if self.training:
            deviation, mean = torch.std_mean(x, dim=-2, correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, MOMENTUM)
                self.running_deviation.lerp_(deviation, MOMENTUM)
        else:
            mean, deviation = self.running_mean, self.running_deviation
        out = (x - mean.unsqueeze(-2)) / (deviation.unsqueeze(-2) + EPSILON)
        if self.scale is not None:
            out = out * self.scale.unsqueeze(-2)
        return out if self.shift is None else out + self.shift.unsqueeze(-2)
