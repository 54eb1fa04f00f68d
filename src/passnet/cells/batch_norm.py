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
            out, mean, deviation = _Normalised.apply(x)
            with torch.no_grad():
                self.running_mean.lerp_(mean, MOMENTUM)
                self.running_deviation.lerp_(deviation, MOMENTUM)
        else:
            out = _normalised(x, self.running_mean, self.running_deviation)
        if self.scale is None:
            return out if self.shift is None else out + self.shift.unsqueeze(-2)
        scale = self.scale.unsqueeze(-2)
        if self.shift is None:
            return out * scale
        return torch.addcmul(self.shift.unsqueeze(-2), out, scale)


def _normalised(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    return (x - mean.unsqueeze(-2)) / (deviation.unsqueeze(-2) + EPSILON)


class _Normalised(torch.autograd.Function):
    """x normalised by its own statistics, and these, for the running averages alone.

    The backward is derived by hand: a step of a Highway network is mostly launches, and autograd
    would take more of them. With y = (x - m) / (s + epsilon) and means over the rows,
    dx = (dy - mean(dy)) / (s + epsilon) - y mean(dy y) / s.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        deviation, mean = torch.std_mean(x, dim=-2, correction=0)
        return _normalised(x, mean, deviation), mean, deviation

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        out, mean, deviation = output
        ctx.mark_non_differentiable(mean, deviation)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, out, deviation)

    @staticmethod
    def backward(ctx, grad: Tensor, *_):
        x, out, deviation = ctx.saved_tensors
        if grad is None:
            return None
        if torch.is_grad_enabled():
            # To be differentiated once more: the plain formula, which autograd can follow.
            spread, middle = torch.std_mean(x, dim=-2, correction=0)
            plain = _normalised(x, middle, spread)
            return torch.autograd.grad(plain, x, grad, create_graph=True)[0]
        deviation = deviation.unsqueeze(-2)
        along = (grad * out).mean(-2, keepdim=True)
        # Where all rows are equal, y is zero and so is what it contributes.
        along = (along / deviation).masked_fill_(deviation == 0, 0)
        level = grad - grad.mean(-2, keepdim=True)
        return torch.addcmul(level / (deviation + EPSILON), out, along, value=-1)
