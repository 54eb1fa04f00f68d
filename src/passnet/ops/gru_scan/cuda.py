"""The CUDA GRU scan as an engine of the registered op."""

from __future__ import annotations

from typing import final

from torch import Tensor

from passnet.ops.cuda.call import Cell
from passnet.ops.cuda.engine import CudaEngine
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.gru_scan.eager import weight_gradients


@final
class CudaGru(CudaEngine[GruScan]):
    """Keeps the gates, and for reset-after the product behind the reset gate."""

    def cell(self, call: GruScan) -> Cell:
        return "gru_after" if call.reset == "after" else "gru_before"

    def plain_weight_gradients(
        self, call: GruScan, grad_drive: Tensor, outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return weight_gradients(call, grad_drive, outputs, saved)
