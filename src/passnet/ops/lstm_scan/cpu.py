"""The compiled LSTM scan."""

from __future__ import annotations

from typing import final

from torch import Tensor

from passnet.ops.cpu.engine import CpuEngine
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.lstm_scan.eager import weight_gradients


@final
class CpuLstm(CpuEngine[LstmScan]):
    """Keeps the four gates, the tanh of the cell that the output gate read, and the summaries."""

    kept = 5

    def cell(self, call: LstmScan) -> str:
        return "lstm"

    def plain_weight_gradients(
        self, call: LstmScan, grad_drive: Tensor, outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return weight_gradients(call, grad_drive, outputs, saved)
