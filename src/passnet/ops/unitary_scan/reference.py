"""The plain loop over time: the meaning of a unitary scan, differentiable by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.equations import UnitaryFactors, urnn_step
from passnet.ops.unitary_scan.call import UnitaryScan


def unitary_reference(call: UnitaryScan) -> list[Tensor]:
    """[every state of the scan, T x B x 2n]."""
    angles, reflections = call.factors
    factors = UnitaryFactors(angles, torch.complex(*reflections.unbind(-1)), call.permutation)
    state, states = torch.complex(*call.initial.chunk(2, dim=-1)), []
    for t, drive in enumerate(torch.complex(*call.drive)):
        proposed = urnn_step(state, drive, factors, bias=call.modulus_bias)
        state = proposed if call.hold is None else torch.where(call.hold[t], state, proposed)
        states.append(state)
    visited = torch.stack(states)
    return [torch.cat((visited.real, visited.imag), dim=-1)]
