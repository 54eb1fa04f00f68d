"""Batch normalisation in training: one kernel each way on a GPU, plain PyTorch elsewhere."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations.batch_norm import EPSILON, MOMENTUM, normalised, scaled_and_shifted
from passnet.ops.cuda.highway import KERNELS
from passnet.ops.transforms import forward_mode, plain_gradients, plainly_differentiated


def batch_norm(
    x: Float[Tensor, "*stack N features"],
    running_mean: Float[Tensor, "*stack features"],
    running_deviation: Float[Tensor, "*stack features"],
    scale: Float[Tensor, "*stack features"] | None = None,
    shift: Float[Tensor, "*stack features"] | None = None,
) -> Float[Tensor, "*stack N features"]:
    """x normalised by its own statistics, towards which the running ones are moved."""
    if KERNELS.normalises(x, running_mean, running_deviation, scale, shift):
        return _Fused.apply(x, running_mean, running_deviation, scale, shift)  # pyright: ignore
    # Its backward is derived by hand, which forward mode cannot follow.
    normalise = _by_own_statistics if forward_mode() else _Normalised.apply
    out, mean, deviation = normalise(x)  # pyright: ignore
    with torch.no_grad():
        running_mean.lerp_(mean, MOMENTUM)
        running_deviation.lerp_(deviation, MOMENTUM)
    return scaled_and_shifted(out, scale, shift)


def _by_own_statistics(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    deviation, mean = torch.std_mean(x, dim=-2, correction=0)
    return normalised(x, mean, deviation), mean, deviation


class _Normalised(torch.autograd.Function):
    """x normalised by its own statistics, and these, for the running averages alone.

    The backward is derived by hand: a step of a Highway network is mostly launches, and autograd
    would take more of them. With y = (x - m) / (s + epsilon) and means over the rows,
    dx = (dy - mean(dy)) / (s + epsilon) - y mean(dy y) / s.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _by_own_statistics(x)

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
            return plain_gradients(lambda x: _by_own_statistics(x)[0], [x], grad)[0]
        deviation = deviation.unsqueeze(-2)
        along = (grad * out).mean(-2, keepdim=True)
        # Where all rows are equal, y is zero and so is what it contributes.
        along = (along / deviation).masked_fill_(deviation == 0, 0)
        level = grad - grad.mean(-2, keepdim=True)
        return torch.addcmul(level / (deviation + EPSILON), out, along, value=-1)


class _Fused(torch.autograd.Function):
    """All of `batch_norm` in one kernel; y is formed again in the backward, from x."""

    @staticmethod
    def forward(ctx, x: Tensor, running_mean: Tensor, running_deviation: Tensor, scale, shift):
        out, statistics = KERNELS.normalise(x, running_mean, running_deviation, scale, shift)
        torch.autograd.graph.increment_version((running_mean, running_deviation))
        ctx.save_for_backward(x, scale, shift, statistics)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore
        x, scale, shift, statistics = ctx.saved_tensors
        if plainly_differentiated(grad):
            dx, dscale, dshift = plain_gradients(_plainly, [x, scale, shift], grad)
        else:
            dx, dscale, dshift = KERNELS.normalise_backward(grad, x, statistics, scale)
        dscale = None if scale is None else dscale
        return dx, None, None, dscale, None if shift is None else dshift


def _plainly(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    return scaled_and_shifted(_by_own_statistics(x)[0], scale, shift)
