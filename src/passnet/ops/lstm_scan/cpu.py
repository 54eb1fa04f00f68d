"""The compiled LSTM scan."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from passnet.ops.cpu.engine import CpuEngine, lay_out, point
from passnet.ops.cpu.gradients import summaries_like
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.lstm_scan.eager import weight_gradients


@final
class CpuLstm(CpuEngine[LstmScan]):
    """Keeps the four gates, the tanh of the cell that the output gate read, and the summaries."""

    def saved_like(self, call: LstmScan) -> list[Tensor]:
        return [call.like.new_empty((5, *call.shape[1:])), *summaries_like(call, vectors=1)]

    def forward(self, call: LstmScan) -> list[Tensor]:
        return self._scan(call, [*call.outputs_like(), *self.saved_like(call)])

    def outputs(self, call: LstmScan) -> list[Tensor]:
        return self._scan(call, call.outputs_like())

    def _scan(self, call: LstmScan, results: list[Tensor]) -> list[Tensor]:
        struct, keep = lay_out("lstm", call, forward=True)
        fields = zip(("states", "cells", "kept", "summaries"), results, strict=False)
        keep += [point(struct, name, tensor) for name, tensor in fields]
        self.run(struct, backward=False)
        return results

    def _gradients(
        self,
        call: LstmScan,
        grads: list[Tensor],
        outputs: list[Tensor],
        saved: list[Tensor],
        grad_drive: Tensor,
    ) -> list[Tensor]:
        starts = {"grad_initial": call.start, "grad_initial_cell": call.start_cell}
        found = {name: torch.empty(s.shape, dtype=call.dtype) for name, s in starts.items()}
        found = {"grad_drive": grad_drive, **found}
        struct, keep = lay_out("lstm", call)
        given = {
            "states": outputs[0],
            "cells": outputs[1],
            "kept": saved[0],
            "grad_states": grads[0],
            "grad_cells": grads[1],
        }
        keep += [point(struct, name, tensor) for name, tensor in (given | found).items()]
        back = summaries_like(call, vectors=1)
        keep += [point(struct, "summaries", tensor) for tensor in back]
        self.run(struct, backward=True)
        if back:
            rest = self.factor_gradients(struct, call, saved[1])
        else:
            rest = weight_gradients(call, grad_drive, outputs, saved)
        return [*found.values(), *rest]
