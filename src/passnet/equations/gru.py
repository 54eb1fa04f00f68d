"""Equations 6 and 7: the GRU with its reset gate before or after the candidate's matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations.passthrough import passthrough_step

GRU_GATES = ("reset", "carry", "candidate")

Reset = Literal["before", "after"]
StateMap = Callable[[Tensor, slice], Tensor]
"""(state [..., n], gates) -> [gates, ..., n]: the recurrent matrices of those gates."""


class GruGates(NamedTuple):
    """One step's gate values; `inner` is what the reset gate multiplies (reset-after only)."""

    reset: Tensor
    carry: Tensor
    candidate: Tensor
    inner: Tensor | None


def gru_gates(
    state: Float[Tensor, "... n"],
    drive: Float[Tensor, "3 ... n"],
    recurrent: StateMap,
    *,
    reset: Reset,
    inner_bias: Float[Tensor, " n"] | None = None,
) -> GruGates:
    """f_omega, f_gamma and f_pi; `drive` holds what inputs and biases give to each gate."""
    if reset == "after":
        from_state = recurrent(state, slice(0, 3))
        opened = torch.sigmoid(drive[:2] + from_state[:2])
        inner = from_state[2] if inner_bias is None else from_state[2] + inner_bias
        candidate = torch.tanh(torch.addcmul(drive[2], inner, opened[0]))
        return GruGates(opened[0], opened[1], candidate, inner)
    opened = torch.sigmoid(drive[:2] + recurrent(state, slice(0, 2)))
    candidate = torch.tanh(drive[2] + recurrent(state * opened[0], slice(2, 3))[0])
    return GruGates(opened[0], opened[1], candidate, None)


def gru_step(state: Float[Tensor, "... n"], gates: GruGates) -> Float[Tensor, "... n"]:
    """The next state; the transform gate is one minus the carry gate."""
    return passthrough_step(state, gates.candidate, transform=1 - gates.carry, carry=gates.carry)
