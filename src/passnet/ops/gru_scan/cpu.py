"""The compiled GRU scan."""

from __future__ import annotations

from typing import final

from torch import Tensor

from passnet.ops.cpu.engine import CpuEngine
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.gru_scan.eager import weight_gradients


@final
class CpuGru(CpuEngine[GruScan]):
    """Keeps the gates, for reset-after the product behind the reset gate, and the summaries.

    For reset-before there is room in the place of that product, which gradients are written to.
    """

    kept = 4

    def cell(self, call: GruScan) -> str:
        return f"gru_{call.reset}"

    def plain_weight_gradients(
        self, call: GruScan, grad_drive: Tensor, outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return weight_gradients(call, grad_drive, outputs, saved)
