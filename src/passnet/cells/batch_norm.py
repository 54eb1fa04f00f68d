"""Batch normalisation as the author's Highway code had it: epsilon beside the deviation."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from passnet.equations.batch_norm import normalised, scaled_and_shifted
from passnet.ops.batch_norm import batch_norm


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
        self.register_buffer("running_mean", torch.empty(*shape, **place))
        self.register_buffer("running_deviation", torch.empty(*shape, **place))
        self.scale = nn.Parameter(torch.empty(*shape, **place)) if scale else None
        self.shift = nn.Parameter(torch.empty(*shape, **place)) if shift else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Start with statistics, scale and shift that change nothing."""
        for zero in (self.running_mean, self.shift):
            if zero is not None:
                zero.zero_()
        for one in (self.running_deviation, self.scale):
            if one is not None:
                one.fill_(1)

    def forward(
        self, x: Float[Tensor, "*stack N features"], shift: Tensor | None = None
    ) -> Float[Tensor, "*stack N features"]:
        """`shift` takes the place of this module's own."""
        # Statistics are kept in their own dtype, whatever autocast made of the product before.
        x = x.to(self.running_mean.dtype)
        shift = self.shift if shift is None else shift
        if self.training:
            if x.shape[-2] < 2:
                raise ValueError(
                    f"batch norm in training got a batch of {x.shape[-2]}, and statistics need two "
                    "or more: give a larger batch, or call .eval()"
                )
            return batch_norm(x, self.running_mean, self.running_deviation, self.scale, shift)
        out = normalised(x, self.running_mean, self.running_deviation)
        return scaled_and_shifted(out, self.scale, shift)
