"""The hand-derived backward of a GRU scan: only the recursion over time is sequential.

The forward keeps its gates. What remains of a step backwards is a product of the state's gradient
with known slopes and the transposed matrices; every weight gradient is one large product after
the scan.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations import gru_gates, gru_step, hold_step
from passnet.ops.chunks import chunks
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.maps import GateMaps
from passnet.ops.precision import accumulation_dtype
from passnet.ops.scan import Engine, step_by_step
from passnet.ops.weights import OneProduct, Product, factor_gradients

_OPENING, _CANDIDATE, _ALL = slice(0, 2), slice(2, 3), slice(0, 3)


class EagerGru(Engine[GruScan]):
    """PyTorch operations, one loop forward and one backward: runs on every machine."""

    name = "eager"

    def refuses(self, call: GruScan) -> str | None:
        return None

    def saved_like(self, call: GruScan) -> list[Tensor]:
        """The gates of every step, reset first; reset-after also what its reset gate multiplied."""
        return [step_by_step(call.drive, 4 if call.reset == "after" else 3)]

    def forward(self, call: GruScan) -> list[Tensor]:
        (states,), (kept,) = call.outputs_like(), self.saved_like(call)
        maps = call.maps
        state = call.initial.to(kept.dtype)
        for t, drive in enumerate(call.drive.unbind(1)):
            gates = gru_gates(state, drive, maps, reset=call.reset, inner_bias=call.inner_bias)
            hold = None if call.hold is None else call.hold[t]
            state = hold_step(state, gru_step(state, gates), hold)
            states[t] = state
            torch.stack([gate for gate in gates if gate is not None], out=kept[:, t])
        return [states, kept]

    def backward(
        self, call: GruScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """By recursion from the last step, in chunks of steps whose slopes are formed at once."""
        states = outputs[0]
        work = accumulation_dtype(states.dtype)
        grad_drive = torch.empty_like(call.drive, dtype=work)
        grad = torch.zeros_like(states[0], dtype=work)
        recur = _recur_after if call.reset == "after" else _recur_before
        for steps in chunks(len(states), states[0].numel(), states.device.type):
            previous = call.previous(states, steps).to(work)
            slopes = _slopes(previous, saved[0][:, steps], _at(call.hold, steps))
            grad = recur(call.maps, slopes, grads[0][steps], grad, grad_drive[:, steps])
        return [grad_drive, grad]


class _Slopes(NamedTuple):
    """Gradient of a pre-activation = slope x gradient of the state (reset-before: of r h).

    They depend on no later step, so they are known for all steps before the recursion.
    """

    reset: Tensor
    carry: Tensor
    candidate: Tensor
    kept: Tensor
    reset_gate: Tensor


def _slopes(
    previous: Float[Tensor, "t B n"], gates: Float[Tensor, "g t B n"], hold: Tensor | None
) -> _Slopes:
    reset, carry, candidate, *inner = gates
    transform = 1 - carry
    slope_carry = (previous - candidate).mul_(carry).mul_(transform)
    slope_candidate = torch.addcmul(transform, transform, candidate.square(), value=-1)
    kept = carry
    if hold is not None:
        let_in = 1 - hold
        slope_carry.mul_(let_in)
        slope_candidate.mul_(let_in)
        kept = hold + let_in * carry
    through = inner[0] * slope_candidate if inner else previous
    slope_reset = torch.addcmul(reset, reset, reset, value=-1).mul_(through)
    return _Slopes(slope_reset, slope_carry, slope_candidate, kept, reset)


def _at(tensor: Tensor | None, steps: slice) -> Tensor | None:
    return None if tensor is None else tensor[steps]


def _recur_after(
    maps: GateMaps, slopes: _Slopes, grad_states: Tensor, grad: Tensor, grad_drive: Tensor
) -> Tensor:
    """Fill `grad_drive`; return the gradient of the state before the first of these steps."""
    outside = torch.stack((slopes.reset, slopes.carry, slopes.candidate), dim=1)
    inside = outside.clone()
    # The candidate's matrix sits behind the reset gate.
    inside[:, 2].mul_(slopes.reset_gate)
    for t in range(len(outside) - 1, -1, -1):
        grad = grad + grad_states[t]
        back = maps.transpose(inside[t] * grad, _ALL)
        outside[t].mul_(grad)
        grad = torch.addcmul(back, slopes.kept[t], grad)
    grad_drive.copy_(outside.transpose(0, 1))
    return grad


def _recur_before(
    maps: GateMaps, slopes: _Slopes, grad_states: Tensor, grad: Tensor, grad_drive: Tensor
) -> Tensor:
    """The same with the candidate's matrix reading r h: one more product in the chain."""
    opening = torch.stack((slopes.reset, slopes.carry), dim=1)
    candidate = slopes.candidate
    for t in range(len(opening) - 1, -1, -1):
        grad = grad + grad_states[t]
        gated = maps.transpose(candidate[t].mul_(grad).unsqueeze(0), _CANDIDATE)
        opening[t, 0].mul_(gated)
        opening[t, 1].mul_(grad)
        back = maps.transpose(opening[t], _OPENING)
        grad = back.addcmul_(gated, slopes.reset_gate[t]).addcmul_(slopes.kept[t], grad)
    grad_drive[:2].copy_(opening.transpose(0, 1))
    grad_drive[2].copy_(candidate)
    return grad


def weight_gradients(
    call: GruScan,
    grad_drive: Float[Tensor, "3 T B n"],
    outputs: list[Tensor],
    saved: list[Tensor],
    one_product: OneProduct,
) -> list[Tensor]:
    """[gradient of every factor, of the inner bias if there is one], for all engines.

    Every engine keeps the reset gates of all steps first among its saved tensors.
    """
    maps = call.maps
    previous = call.previous(outputs[0])
    reset = saved[0][0]
    opening = Product(maps.inputs(previous, _OPENING), grad_drive[:2], _OPENING)
    if call.reset == "before":
        gated = maps.inputs(previous * reset, _CANDIDATE)
        behind = Product(gated, grad_drive[2:], _CANDIDATE)
        return factor_gradients(maps, [opening, behind], one_product)
    inside = grad_drive[2:] * reset
    behind = Product(maps.inputs(previous, _CANDIDATE), inside, _CANDIDATE)
    grads = factor_gradients(maps, [opening, behind], one_product)
    return grads if call.inner_bias is None else [*grads, inside.sum((0, 1, 2))]
