"""The plain loop over time: the meaning of an LSTM scan, differentiable to any order."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.equations import hold_step, lstm_gates, lstm_step
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.precision import accumulation_dtype


def lstm_reference(call: LstmScan) -> list[Tensor]:
    """[every hidden state, every cell], T x B x n each."""
    dtype = call.dtype
    work = accumulation_dtype(dtype)
    hidden, cell = call.start.to(work), call.start_cell.to(work)
    hiddens, cells = [], []
    for t, drive in enumerate(call.drive.unbind(1)):
        hold, hold_cell = (None if h is None else h[t] for h in (call.hold, call.hold_cell))
        hidden, cell = lstm_next(call, (hidden, cell), drive, (hold, hold_cell))
        hiddens.append(hidden.to(dtype))
        cells.append(cell.to(dtype))
    return [torch.stack(hiddens), torch.stack(cells)]


def lstm_next(
    call: LstmScan,
    states: tuple[Tensor, Tensor],
    drive: Tensor,
    holds: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor]:
    """(hidden, cell) after one step of `call`, from what drives it and holds it there."""
    (hidden, cell), (hold, hold_cell) = states, holds
    step = lstm_step(cell, lstm_gates(hidden, drive, call.maps))
    return hold_step(hidden, step.hidden, hold), hold_step(cell, step.cell, hold_cell)
