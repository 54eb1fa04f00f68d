"""The hand-derived backward of a GRU scan: only the recursion over time is sequential.

The forward keeps its gates. What remains of a step backwards is a product of the state's gradient
with known slopes and the transposed matrices; every weight gradient is one large product after
the scan.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.ops.chunks import chunks, drives, each_step, gradients_to_sum
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.products import one_product, prepare, summaries_like
from passnet.ops.scan import Engine, states_before, step_by_step
from passnet.ops.weights import OneProduct, Product, factor_gradients, plain_product

_OPENING, _CANDIDATE, _ALL = slice(0, 2), slice(2, 3), slice(0, 3)
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class EagerGru(Engine[GruScan]):
    """PyTorch operations, one loop forward and one backward: runs on every machine."""

    name = "eager"

    def refuses(self, call: GruScan) -> str | None:
        return None

    def saved_like(self, call: GruScan) -> list[Tensor]:
        """The gates of every step, reset first; the summaries of low-rank products.

        Reset-after also keeps what its reset gate multiplied, before the candidate.
        """
        gates = step_by_step(call, 4 if call.reset == "after" else 3)
        _, steps, batch, _ = call.shape
        parts = _RUNS[call.reset].parts
        return [gates, *summaries_like(call.maps, *parts, steps=steps, batch=batch)]

    def forward(self, call: GruScan) -> list[Tensor]:
        """What is kept holds the drive first and turns into the gates in place."""
        (states,), (kept, *summaries) = call.outputs_like(), self.saved_like(call)
        state = call.start.to(kept.dtype)
        run, drive_in = _RUNS[call.reset](call, state, *summaries), drives(call)
        for steps in reversed([*chunks(len(states), state.numel(), state.device.type)]):
            gates, drive = kept[:, steps], drive_in(steps)
            gates[:2], gates[-1] = drive[:2], drive[2]
            found = states[steps].to(kept.dtype)
            state = run.forward(steps, state, gates, _at(call.hold, steps, kept), found)
            if found.dtype != states.dtype:
                states[steps] = found
        return [states, kept, *summaries]

    def backward(
        self, call: GruScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """By recursion from the last step, in chunks of steps whose slopes are formed at once."""
        (states,), (kept, *summaries) = outputs, saved
        grad_drive = kept.new_empty(call.shape)
        grad = kept.new_zeros(call.start.shape)
        run = _RUNS[call.reset](call, grad, *summaries)
        for steps in chunks(len(states), grad.numel(), grad.device.type):
            gates, slopes = kept[:, steps], grad_drive[:, steps]
            previous = states_before(call.start, states, steps).to(kept.dtype)
            passed = _slopes(previous, gates, _at(call.hold, steps, kept), slopes)
            rows = gradients_to_sum(grads[0][steps], grad)
            run.backward(steps, rows, gates[0], slopes, passed)
            grad = rows[0].clone()
        rest = weight_gradients(call, grad_drive, outputs, saved, run.one_product())
        return [grad_drive, grad, *rest]


def _at(hold: Tensor | None, steps: slice, like: Tensor) -> Tensor | None:
    return None if hold is None else hold[steps].to(like.dtype)


def _slopes(
    previous: Float[Tensor, "t B n"],
    gates: Float[Tensor, "g t B n"],
    hold: Float[Tensor, "t B #n"] | None,
    slopes: Float[Tensor, "3 t B n"],
) -> Float[Tensor, "t B n"]:
    """Fill `slopes` and return that of the state itself; none depends on a later step.

    The gradient of a pre-activation is its slope times the gradient of the state (for the reset
    gate of reset-before, that of r h).
    """
    reset, carry, *inner, candidate = gates
    to_carry, to_candidate, passed = previous - candidate, 1 - carry, carry
    if hold is not None:
        let_in = 1 - hold
        to_carry.mul_(let_in)
        to_candidate.mul_(let_in)
        passed = torch.addcmul(hold, let_in, carry)
    _sigmoid_backward(to_carry, carry, grad_input=slopes[1])
    _tanh_backward(to_candidate, candidate, grad_input=slopes[2])
    to_reset = inner[0] * slopes[2] if inner else previous
    _sigmoid_backward(to_reset, reset, grad_input=slopes[0])
    return passed


def _next_state(
    state: Tensor, candidate: Tensor, carry: Tensor, hold: Tensor | None, out: Tensor
) -> Tensor:
    """`gru_step`, then `hold_step`: each lets in one minus what it keeps."""
    torch.lerp(candidate, state, carry, out=out)
    return out if hold is None else torch.lerp(out, state, hold, out=out)


@final
class _After:
    """`gru_gates` for reset-after: all matrices read the state, the reset gate follows them."""

    parts = (_ALL,)

    def __init__(self, call: GruScan, state: Tensor, summaries: Tensor | None = None) -> None:
        self._all = prepare(call.maps, _ALL, state, summaries)
        self._inner_bias = call.inner_bias

    def forward(
        self, steps: slice, state: Tensor, gates: Tensor, hold: Tensor | None, found: Tensor
    ) -> Tensor:
        """Turn the drive into gates; inner, which has none, starts as its bias."""
        gates[2] = 0 if self._inner_bias is None else self._inner_bias
        views = gates.transpose(0, 1)
        for t, products, opened, reset, carry, inner, candidate, held, out in each_step(
            steps, views[:, :3], views[:, :2], *gates, hold, found
        ):
            self._all.add(products, state, t)
            opened.sigmoid_()
            candidate.addcmul_(inner, reset).tanh_()
            state = _next_state(state, candidate, carry, held, out)
        return state

    def backward(
        self, steps: slice, grads: Tensor, reset: Tensor, slopes: Tensor, passed: Tensor
    ) -> None:
        """Sum the states' `grads`; `slopes` become the gradients of the pre-activations."""
        slope_candidate = slopes[2].clone()
        slopes[2].mul_(reset)
        own = self._all.add_diagonal(passed, slopes)
        for t, products, slope, grad, before in reversed(
            each_step(steps, slopes.transpose(0, 1), own, grads[1:], grads[:-1])
        ):
            self._all.add_transpose(before, products.mul_(grad), t)
            before.addcmul_(slope, grad)
        torch.mul(slope_candidate, grads[1:], out=slopes[2])

    def one_product(self) -> OneProduct:
        """For the weight gradients, which take the candidate's gate by itself."""
        return one_product((self._all, _OPENING), (self._all, _CANDIDATE))


@final
class _Before:
    """`gru_gates` for reset-before: the candidate's matrix reads r h, a product more in a row."""

    parts = (_OPENING, _CANDIDATE)

    def __init__(
        self,
        call: GruScan,
        state: Tensor,
        opening: Tensor | None = None,
        candidate: Tensor | None = None,
    ) -> None:
        self._opening = prepare(call.maps, _OPENING, state, opening)
        self._candidate = prepare(call.maps, _CANDIDATE, state, candidate)

    def forward(
        self, steps: slice, state: Tensor, gates: Tensor, hold: Tensor | None, found: Tensor
    ) -> Tensor:
        """Turn the drive into gates."""
        gated = torch.empty_like(state)
        views = gates.transpose(0, 1)
        for t, opened, product, reset, carry, candidate, held, out in each_step(
            steps, views[:, :2], views[:, 2:], *gates, hold, found
        ):
            self._opening.add(opened, state, t)
            opened.sigmoid_()
            self._candidate.add(product, torch.mul(state, reset, out=gated), t)
            candidate.tanh_()
            state = _next_state(state, candidate, carry, held, out)
        return state

    def backward(
        self, steps: slice, grads: Tensor, reset: Tensor, slopes: Tensor, passed: Tensor
    ) -> None:
        """Sum the states' `grads`; `slopes` become the gradients of the pre-activations."""
        own = self._opening.add_diagonal(passed, slopes[1:2], first=1)
        own_gated = self._opening.add_diagonal(reset, slopes[:1])
        own_candidate = self._candidate.add_diagonal(None, slopes[2:])
        grads_gated = torch.zeros_like(grads[1:])
        views = slopes.transpose(0, 1)
        for (
            (t, opening, candidate, to_reset, to_carry),
            (_, slope, slope_gated, slope_candidate, grad, gated, before),
        ) in zip(
            reversed(each_step(steps, views[:, :2], views[:, 2:], *slopes[:2])),
            reversed(
                each_step(steps, own, own_gated, own_candidate, grads[1:], grads_gated, grads[:-1])
            ),
            strict=True,
        ):
            self._candidate.add_transpose(gated, candidate.mul_(grad), t)
            if slope_candidate is not None:
                gated.addcmul_(slope_candidate, grad)
            to_reset.mul_(gated)
            to_carry.mul_(grad)
            self._opening.add_transpose(before, opening, t)
            before.addcmul_(slope, grad).addcmul_(slope_gated, gated)

    def one_product(self) -> OneProduct:
        """For the weight gradients."""
        return one_product((self._opening, _OPENING), (self._candidate, slice(0, 1)))


_RUNS = {"after": _After, "before": _Before}


def weight_gradients(
    call: GruScan,
    grad_drive: Float[Tensor, "3 T B n"],
    outputs: list[Tensor],
    saved: list[Tensor],
    one_product: OneProduct = plain_product,
) -> list[Tensor]:
    """[gradient of every factor, of the inner bias if there is one], for all engines.

    Every engine keeps the reset gates of all steps first among its saved tensors.
    """
    maps = call.maps
    previous = states_before(call.start, outputs[0])
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
