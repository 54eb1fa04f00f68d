"""Equation 3: one Highway layer, a passthrough over depth instead of time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations.passthrough import passthrough_step

HIGHWAY_GATES = ("candidate", "transform")


def highway_layer(
    state: Float[Tensor, "... n"],
    before: Float[Tensor, "2 ... n"],
    *,
    activation: Callable[[Tensor], Tensor],
) -> Float[Tensor, "... n"]:
    """The next state from both gates' pre-activations; carry is one minus transform."""
    transform = torch.sigmoid(before[1])
    return passthrough_step(state, activation(before[0]), transform=transform, carry=1 - transform)
