"""Equation 2: the state passes through a step, changed only element by element."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def passthrough_step(
    state: Float[Tensor, "... n"],
    candidate: Float[Tensor, "... n"],
    *,
    transform: Float[Tensor, "... n"],
    carry: Float[Tensor, "... n"],
) -> Float[Tensor, "... n"]:
    """The next state: what is proposed, as far as it is let in, plus what is kept of the old."""
    return candidate * transform + state * carry


def hold_step(
    state: Float[Tensor, "... n"],
    proposed: Float[Tensor, "... n"],
    hold: Float[Tensor, "*rows #n"] | None,
) -> Float[Tensor, "... n"]:
    """Keep the fraction `hold` of the old state: 1 after a sequence's end, random for zoneout.

    Where hold is exactly 1 the old state survives bit for bit.
    """
    if hold is None:
        return proposed
    return passthrough_step(state, proposed, transform=1 - hold, carry=hold)
