"""The hand-derived backward of an LSTM scan: only the recursion over time is sequential."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.ops.chunks import chunks, drives, each_step, gradients_to_sum
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.products import Products, one_product, prepare, summaries_like
from passnet.ops.scan import Engine, states_before, step_by_step
from passnet.ops.weights import OneProduct, Product, factor_gradients, plain_product

_ALL = slice(0, 4)
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class EagerLstm(Engine[LstmScan]):
    """PyTorch operations, one loop forward and one backward: runs on every machine."""

    name = "eager"

    def refuses(self, call: LstmScan) -> str | None:
        return None

    def saved_like(self, call: LstmScan) -> list[Tensor]:
        """The four gates of every step and the tanh of the cell that its output gate read; the
        summaries of low-rank products.
        """
        _, steps, batch, _ = call.shape
        summaries = summaries_like(call.maps, _ALL, steps=steps, batch=batch)
        return [step_by_step(call, 5), *summaries]

    def forward(self, call: LstmScan) -> list[Tensor]:
        """What is kept holds the drive first and turns into the gates in place."""
        outputs, (kept, *summaries) = call.outputs_like(), self.saved_like(call)
        state = call.start.to(kept.dtype), call.start_cell.to(kept.dtype)
        products, drive_in = prepare(call.maps, _ALL, state[0], *summaries), drives(call)
        for steps in reversed([*chunks(len(outputs[0]), state[0].numel(), kept.device.type)]):
            gates = kept[:, steps]
            gates[:4] = drive_in(steps)
            found = [output[steps].to(kept.dtype) for output in outputs]
            state = _run(products, steps, state, gates, found, _holds(call, steps, kept))
            if kept.dtype != outputs[0].dtype:
                for output, values in zip(outputs, found, strict=True):
                    output[steps] = values
        return [*outputs, kept, *summaries]

    def backward(
        self, call: LstmScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """By recursion from the last step, in chunks of steps whose slopes are formed at once."""
        (_, cells), (kept, *summaries) = outputs, saved
        grad_drive = kept.new_empty(call.shape)
        grad, grad_cell = kept.new_zeros((2, *call.start.shape))
        products = prepare(call.maps, _ALL, grad, *summaries)
        for steps in chunks(len(cells), grad.numel(), kept.device.type):
            gates, slopes = kept[:, steps], grad_drive[:, steps]
            holds = _holds(call, steps, kept)
            before = states_before(call.start_cell, cells, steps).to(kept.dtype)
            slope_read = _slopes(before, gates, holds[0], slopes)
            rows = gradients_to_sum(grads[0][steps], grad)
            cell_rows = gradients_to_sum(grads[1][steps], grad_cell)
            _run_back(products, steps, rows, cell_rows, slopes, slope_read, gates[1], holds)
            grad, grad_cell = rows[0].clone(), cell_rows[0].clone()
        handed_on = one_product((products, _ALL))
        rest = weight_gradients(call, grad_drive, outputs, saved, handed_on)
        return [grad_drive, grad, grad_cell, *rest]


def _holds(call: LstmScan, steps: slice, like: Tensor) -> list[Tensor | None]:
    holds = call.hold, call.hold_cell
    return [None if hold is None else hold[steps].to(like.dtype) for hold in holds]


def _run(
    products: Products,
    steps: slice,
    state: tuple[Tensor, Tensor],
    gates: Float[Tensor, "5 t B n"],
    found: Sequence[Tensor],
    holds: Sequence[Tensor | None],
) -> tuple[Tensor, Tensor]:
    """`lstm_gates` and `lstm_step`: turn the drive into gates, fill `found`, return the last."""
    hidden, cell = state
    views = gates.transpose(0, 1)
    for (
        (t, driven, opened, transform, carry, candidate, output, read),
        (_, next_hidden, next_cell, hold, hold_cell),
    ) in zip(
        each_step(steps, views[:, :4], views[:, :2], *gates),
        each_step(steps, *found, *holds),
        strict=True,
    ):
        products.add(driven, hidden, t)
        opened.sigmoid_()
        candidate.tanh_()
        output.sigmoid_()
        torch.mul(carry, cell, out=next_cell).addcmul_(transform, candidate)
        torch.tanh(next_cell, out=read)
        torch.mul(output, read, out=next_hidden)
        if hold is not None:
            torch.lerp(next_hidden, hidden, hold, out=next_hidden)
        if hold_cell is not None:
            torch.lerp(next_cell, cell, hold_cell, out=next_cell)
        hidden, cell = next_hidden, next_cell
    return hidden, cell


def _slopes(
    before: Float[Tensor, "t B n"],
    gates: Float[Tensor, "5 t B n"],
    hold: Float[Tensor, "t B #n"] | None,
    slopes: Float[Tensor, "4 t B n"],
) -> Float[Tensor, "t B n"]:
    """Fill the gates' `slopes` and return that of the cell that is read, for all steps at once.

    The output gate and the read cell take the hidden state's gradient, the three other gates that
    of the proposed cell.
    """
    transform, carry, candidate, output, read = gates
    _sigmoid_backward(candidate, transform, grad_input=slopes[0])
    _sigmoid_backward(before, carry, grad_input=slopes[1])
    _tanh_backward(transform, candidate, grad_input=slopes[2])
    _sigmoid_backward(read, output, grad_input=slopes[3])
    slope_read = _tanh_backward(output, read, grad_input=torch.empty_like(before))
    if hold is not None:
        let_in = 1 - hold
        slopes[3].mul_(let_in)
        slope_read.mul_(let_in)
    return slope_read


def _run_back(
    products: Products,
    steps: slice,
    grads: Float[Tensor, "t+1 B n"],
    cell_grads: Float[Tensor, "t+1 B n"],
    slopes: Float[Tensor, "4 t B n"],
    slope_read: Float[Tensor, "t B n"],
    carry: Float[Tensor, "t B n"],
    holds: Sequence[Tensor | None],
) -> None:
    """Sum the states' gradients; `slopes` become the gradients of the pre-activations."""
    hold, hold_cell = holds
    own = products.add_diagonal(hold, slopes[3:], first=3)
    own_cell = products.add_diagonal(None, slopes[:3])
    views = slopes.transpose(0, 1)
    to_and_from = grads[1:], cell_grads[1:], grads[:-1], cell_grads[:-1]
    for (
        (t, all_gates, cell_gates, output, read, kept, held),
        (_, slope, cell_slope, grad, cell_grad, before, cell_before),
    ) in zip(
        reversed(each_step(steps, views, views[:, :3], slopes[3], slope_read, carry, hold_cell)),
        reversed(each_step(steps, own, own_cell, *to_and_from)),
        strict=True,
    ):
        if held is not None:
            cell_before.addcmul_(held, cell_grad)
            cell_grad.addcmul_(held, cell_grad, value=-1)
        proposed = cell_grad.addcmul_(read, grad)
        cell_before.addcmul_(kept, proposed)
        cell_gates.mul_(proposed)
        output.mul_(grad)
        products.add_transpose(before, all_gates, t)
        if slope is not None:
            before.addcmul_(slope, grad)
        if cell_slope is not None:
            before.addcmul_(cell_slope, proposed)


def weight_gradients(
    call: LstmScan,
    grad_drive: Float[Tensor, "4 T B n"],
    outputs: list[Tensor],
    saved: list[Tensor],
    one_product: OneProduct = plain_product,
) -> list[Tensor]:
    """The gradient of every factor, for all engines."""
    previous = states_before(call.start, outputs[0])
    maps = call.maps
    product = Product(maps.inputs(previous, _ALL), grad_drive, _ALL)
    return factor_gradients(maps, [product], one_product)
