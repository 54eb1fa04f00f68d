"""The plain loop over time: the meaning of an LSTM scan, differentiable to any order."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.equations import hold_step, lstm_gates, lstm_step
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.precision import accumulation_dtype


def lstm_reference(call: LstmScan) -> list[Tensor]:
    """[every hidden state, every cell], T x B x n each."""
    maps = call.maps
    dtype = call.dtype
    hidden = call.start.to(accumulation_dtype(dtype))
    cell = call.start_cell.to(hidden.dtype)
    hiddens, cells = [], []
    for t, drive in enumerate(call.drive.unbind(1)):
        step = lstm_step(cell, lstm_gates(hidden, drive, maps))
        hidden = hold_step(hidden, step.hidden, None if call.hold is None else call.hold[t])
        cell = hold_step(cell, step.cell, None if call.hold_cell is None else call.hold_cell[t])
        hiddens.append(hidden.to(dtype))
        cells.append(cell.to(dtype))
    return [torch.stack(hiddens), torch.stack(cells)]
