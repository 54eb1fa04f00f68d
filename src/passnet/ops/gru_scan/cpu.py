"""The compiled GRU scan."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from passnet.ops.cpu.engine import CpuEngine, lay_out, point
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.gru_scan.eager import weight_gradients

_CELLS = {"after": 0, "before": 1}


@final
class CpuGru(CpuEngine[GruScan]):
    """Keeps the gates, and for reset-after the product behind the reset gate."""

    def saved_like(self, call: GruScan) -> list[Tensor]:
        count = 4 if call.reset == "after" else 3
        return [call.like.new_empty((count, *call.shape[1:]))]

    def forward(self, call: GruScan) -> list[Tensor]:
        return self._scan(call, [*call.outputs_like(), *self.saved_like(call)])

    def outputs(self, call: GruScan) -> list[Tensor]:
        return self._scan(call, call.outputs_like())

    def _scan(self, call: GruScan, results: list[Tensor]) -> list[Tensor]:
        struct, keep = lay_out(_CELLS[call.reset], call, drive=call.drive)
        fields = zip(("states", "kept"), results, strict=False)
        keep += [point(struct, name, tensor) for name, tensor in fields]
        self.run(struct, backward=False)
        return results

    def backward(
        self, call: GruScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        grad_drive = torch.empty(call.shape, dtype=call.dtype)
        grad_initial = torch.empty(call.start.shape, dtype=call.dtype)
        struct, keep = lay_out(_CELLS[call.reset], call)
        keep += [
            point(struct, "states", outputs[0]),
            point(struct, "kept", saved[0]),
            point(struct, "grad_states", grads[0]),
            point(struct, "grad_drive", grad_drive),
            point(struct, "grad_initial", grad_initial),
        ]
        self.run(struct, backward=True)
        rest = weight_gradients(call, grad_drive, outputs, saved, self.one_product)
        return [grad_drive, grad_initial, *rest]
