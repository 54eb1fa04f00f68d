"""The plain loop over time: the meaning of a GRU scan, differentiable by autograd to any order."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.equations import gru_gates, gru_step, hold_step
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.precision import accumulation_dtype


def gru_reference(call: GruScan) -> list[Tensor]:
    """[every state of the scan, T x B x n]."""
    state = call.start.to(accumulation_dtype(call.dtype))
    states = []
    for t, drive in enumerate(call.drive.unbind(1)):
        hold = None if call.hold is None else call.hold[t]
        (state,) = gru_next(call, (state,), drive, (hold,))
        states.append(state.to(call.dtype))
    return [torch.stack(states)]


def gru_next(
    call: GruScan, states: tuple[Tensor], drive: Tensor, holds: tuple[Tensor | None]
) -> tuple[Tensor]:
    """The state after one step of `call`, `[B, n]`, from what drives it and holds it there."""
    (state,), (hold,) = states, holds
    gates = gru_gates(state, drive, call.maps, reset=call.reset, inner_bias=call.inner_bias)
    return (hold_step(state, gru_step(state, gates), hold),)
