"""The CUDA LSTM scan as an engine of the registered op."""

from __future__ import annotations

from typing import final

from torch import Tensor

from passnet.ops.cuda.call import Cell
from passnet.ops.cuda.engine import CudaEngine
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.lstm_scan.eager import weight_gradients


@final
class CudaLstm(CudaEngine[LstmScan]):
    """Keeps the four gates."""

    def cell(self, call: LstmScan) -> Cell:
        return "lstm"

    def plain_weight_gradients(
        self, call: LstmScan, grad_drive: Tensor, outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return weight_gradients(call, grad_drive, outputs, saved)
