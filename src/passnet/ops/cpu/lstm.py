"""The compiled LSTM scan."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from passnet.ops.cpu.engine import CpuEngine, lay_out, point
from passnet.ops.cpu.library import ScanStruct
from passnet.ops.lstm_scan.call import LstmScan

_CELL = 2


@final
class CpuLstm(CpuEngine[LstmScan]):
    """Keeps the four gates and the tanh of the cell that the output gate read."""

    def saved_like(self, call: LstmScan) -> list[Tensor]:
        return [call.drive.new_empty((5, *call.drive.shape[1:]))]

    def forward(self, call: LstmScan) -> list[Tensor]:
        results = [*call.outputs_like(), *self.saved_like(call)]
        struct, keep = _lay_out(call)
        for name, tensor in zip(("states", "cells", "kept"), results, strict=True):
            keep.append(point(struct, name, tensor))
        self.run(struct, backward=False)
        return results

    def backward(
        self, call: LstmScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        found = {
            "grad_drive": call.drive,
            "grad_initial": call.initial,
            "grad_initial_cell": call.initial_cell,
        }
        found = {
            name: torch.empty(like.shape, dtype=call.drive.dtype) for name, like in found.items()
        }
        struct, keep = _lay_out(call)
        given = {
            "states": outputs[0],
            "cells": outputs[1],
            "kept": saved[0],
            "grad_states": grads[0],
            "grad_cells": grads[1],
        }
        keep += [point(struct, name, tensor) for name, tensor in (given | found).items()]
        self.run(struct, backward=True)
        return list(found.values())


def _lay_out(call: LstmScan) -> tuple[ScanStruct, list[Tensor]]:
    return lay_out(_CELL, call, initial_cell=call.initial_cell, hold_cell=call.hold_cell)
