"""The plain loop over time: the meaning of a GRU scan, differentiable by autograd to any order."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.equations import gru_gates, gru_step, hold_step
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.precision import accumulation_dtype


def gru_reference(call: GruScan) -> list[Tensor]:
    """[every state of the scan, T x B x n]."""
    maps = call.maps
    state = call.start.to(accumulation_dtype(call.dtype))
    states = []
    for t, drive in enumerate(call.drive.unbind(1)):
        gates = gru_gates(state, drive, maps, reset=call.reset, inner_bias=call.inner_bias)
        hold = None if call.hold is None else call.hold[t]
        state = hold_step(state, gru_step(state, gates), hold)
        states.append(state.to(call.dtype))
    return [torch.stack(states)]
