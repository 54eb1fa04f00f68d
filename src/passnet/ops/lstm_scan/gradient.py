"""The hand-derived backward of an LSTM scan: only the recursion over time is sequential."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations import hold_step, lstm_gates, lstm_step
from passnet.ops.chunks import chunks
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.scan import Engine, states_before, step_by_step
from passnet.ops.weights import OneProduct, Product, factor_gradients

_ALL = slice(0, 4)


class EagerLstm(Engine[LstmScan]):
    """PyTorch operations, one loop forward and one backward: runs on every machine."""

    name = "eager"

    def refuses(self, call: LstmScan) -> str | None:
        return None

    def saved_like(self, call: LstmScan) -> list[Tensor]:
        """The four gates of every step, and the tanh of the cell that its output gate read."""
        return [step_by_step(call.drive, 5)]

    def forward(self, call: LstmScan) -> list[Tensor]:
        (hiddens, cells), (kept,) = call.outputs_like(), self.saved_like(call)
        maps = call.maps
        hidden, cell = call.initial.to(kept.dtype), call.initial_cell.to(kept.dtype)
        for t, drive in enumerate(call.drive.unbind(1)):
            gates = lstm_gates(hidden, drive, maps)
            step = lstm_step(cell, gates)
            hidden = hold_step(hidden, step.hidden, None if call.hold is None else call.hold[t])
            cell = hold_step(cell, step.cell, None if call.hold_cell is None else call.hold_cell[t])
            hiddens[t], cells[t] = hidden, cell
            torch.stack((*gates, step.read), out=kept[:, t])
        return [hiddens, cells, kept]

    def backward(
        self, call: LstmScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """By recursion from the last step, in chunks of steps whose slopes are formed at once."""
        hiddens, cells = outputs
        grad_drive = torch.empty_like(call.drive, dtype=saved[0].dtype)
        grad = torch.zeros_like(hiddens[0], dtype=saved[0].dtype)
        grad_cell = torch.zeros_like(grad)
        for steps in chunks(len(hiddens), hiddens[0].numel(), hiddens.device.type):
            before = states_before(call.initial_cell, cells, steps).to(grad.dtype)
            slopes, slope_read = _slopes(before, saved[0][:, steps], _at(call.hold, steps))
            carry = saved[0][1, steps]
            for t in range(len(slopes) - 1, -1, -1):
                at = steps.start + t
                grad = grad + grads[0][at]
                grad_cell = grad_cell + grads[1][at]
                if call.hold_cell is None:
                    proposed = torch.addcmul(grad_cell, slope_read[t], grad)
                else:
                    let_in = (1 - call.hold_cell[at]) * grad_cell
                    proposed = let_in.addcmul_(slope_read[t], grad)
                slopes[t, :3].mul_(proposed)
                slopes[t, 3].mul_(grad)
                back = call.maps.transpose(slopes[t], _ALL)
                grad = back if call.hold is None else back.addcmul_(call.hold[at], grad)
                proposed.mul_(carry[t])
                if call.hold_cell is not None:
                    proposed.addcmul_(call.hold_cell[at], grad_cell)
                grad_cell = proposed
            grad_drive[:, steps].copy_(slopes.transpose(0, 1))
        return [grad_drive, grad, grad_cell]


def _slopes(
    before: Float[Tensor, "t B n"], kept: Float[Tensor, "5 t B n"], hold: Tensor | None
) -> tuple[Float[Tensor, "t 4 B n"], Float[Tensor, "t B n"]]:
    """(slopes of the four gates, slope of the cell that is read), for all steps at once.

    The output gate and the read cell take the hidden state's gradient, the three other gates that
    of the proposed cell.
    """
    transform, carry, candidate, output, read = kept
    let_in = 1.0 if hold is None else 1 - hold
    slopes = torch.stack(
        (
            candidate * transform * (1 - transform),
            before * carry * (1 - carry),
            transform * (1 - candidate.square()),
            let_in * read * output * (1 - output),
        ),
        dim=1,
    )
    return slopes, let_in * output * (1 - read.square())


def _at(tensor: Tensor | None, steps: slice) -> Tensor | None:
    return None if tensor is None else tensor[steps]


def weight_gradients(
    call: LstmScan,
    grad_drive: Float[Tensor, "4 T B n"],
    outputs: list[Tensor],
    saved: list[Tensor],
    one_product: OneProduct,
) -> list[Tensor]:
    """The gradient of every factor, for all engines."""
    previous = states_before(call.initial, outputs[0], slice(None))
    maps = call.maps
    product = Product(maps.inputs(previous, _ALL), grad_drive, _ALL)
    return factor_gradients(maps, [product], one_product)
