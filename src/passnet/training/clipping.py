"""What is done to a gradient before the step: clipping, and what replaces a broken one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from passnet.config import ClipComponents, ClipNorm, Clipping


class Treated(NamedTuple):
    """The norm of a gradient before clipping, and whether it cannot be used: two scalars."""

    norm: Tensor
    broken: Tensor


@torch.no_grad()
def treat_gradients_(
    parameters: Sequence[Tensor],
    clipping: Clipping | None,
    *,
    nan_policy: Literal["stop"] | float,
) -> Treated:
    """Clip the gradients of `parameters` in place; with a number as policy, replace broken ones.

    A NaN or infinite norm over all gradients makes every one of them `nan_policy` times its
    parameter, which is not clipped: the paper's recovery. Clipping by component makes an ordinary
    gradient of one that overflowed, so there only NaN counts. Nothing here waits for the device.
    """
    pairs = [(p, p.grad) for p in parameters if p.grad is not None]
    gradients = [gradient for _, gradient in pairs]
    norm = gradient_norm(gradients)
    broken = ~torch.isfinite(norm)
    match clipping:
        case ClipNorm(limit):
            torch._foreach_mul_(gradients, (limit / norm).clamp(max=1.0))
        case ClipComponents(limit):
            torch._foreach_clamp_min_(gradients, -limit)
            torch._foreach_clamp_max_(gradients, limit)
            broken = ~torch.isfinite(gradient_norm(gradients))
    if nan_policy != "stop":
        for parameter, gradient in pairs:
            gradient.copy_(torch.where(broken, parameter * nan_policy, gradient))
    return Treated(norm, broken)


def gradient_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm over all components of all tensors together, as a scalar tensor."""
    if not gradients:
        return torch.zeros(())
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(gradients))))
