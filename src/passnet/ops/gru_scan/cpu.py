"""The compiled GRU scan."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from passnet.ops.cpu.engine import CpuEngine, lay_out, point
from passnet.ops.cpu.gradients import summaries_like
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.gru_scan.eager import weight_gradients


@final
class CpuGru(CpuEngine[GruScan]):
    """Keeps the gates, for reset-after the product behind the reset gate, and the summaries.

    For reset-before there is room in the place of that product, which gradients are written to.
    """

    def saved_like(self, call: GruScan) -> list[Tensor]:
        return [call.like.new_empty((4, *call.shape[1:])), *self._summaries_like(call)]

    def forward(self, call: GruScan) -> list[Tensor]:
        return self._scan(call, [*call.outputs_like(), *self.saved_like(call)])

    def outputs(self, call: GruScan) -> list[Tensor]:
        return self._scan(call, call.outputs_like())

    def _scan(self, call: GruScan, results: list[Tensor]) -> list[Tensor]:
        struct, keep = lay_out(f"gru_{call.reset}", call, forward=True)
        fields = zip(("states", "kept", "summaries"), results, strict=False)
        keep += [point(struct, name, tensor) for name, tensor in fields]
        self.run(struct, backward=False)
        return results

    def _gradients(
        self,
        call: GruScan,
        grads: list[Tensor],
        outputs: list[Tensor],
        saved: list[Tensor],
        grad_drive: Tensor,
    ) -> list[Tensor]:
        grad_initial = torch.empty(call.start.shape, dtype=call.dtype)
        struct, keep = lay_out(f"gru_{call.reset}", call)
        keep += [
            point(struct, "states", outputs[0]),
            point(struct, "kept", saved[0]),
            point(struct, "grad_states", grads[0]),
            point(struct, "grad_drive", grad_drive),
            point(struct, "grad_initial", grad_initial),
        ]
        back = self._summaries_like(call)
        keep += [point(struct, "summaries", tensor) for tensor in back]
        self.run(struct, backward=True)
        if back:
            rest = self.factor_gradients(struct, call, saved[1])
        else:
            rest = weight_gradients(call, grad_drive, outputs, saved)
        return [grad_drive, grad_initial, *rest]

    def _summaries_like(self, call: GruScan) -> list[Tensor]:
        return summaries_like(call, vectors=1 if call.reset == "after" else 2)
