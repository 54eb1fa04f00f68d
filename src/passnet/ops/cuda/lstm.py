"""The CUDA LSTM scan as an engine of the registered op."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor

from passnet.ops.cuda.call import Call, describe, refuses_device
from passnet.ops.cuda.scan import lstm_backward, lstm_forward, refuses
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.scan import Engine


@final
class CudaLstm(Engine[LstmScan]):
    """Persistent kernels that keep both states and the factors on chip for a whole sequence."""

    name = "cuda"

    def refuses(self, call: LstmScan) -> str | None:
        if call.hold_cell is not None and call.hold_cell.shape[-1] == call.drive.shape[-1]:
            return "the CUDA LSTM scan has lengths but no zoneout yet"
        return refuses_device(call.drive, call.structure) or refuses(
            _call(call), device=call.drive.device.index or 0
        )

    def saved_like(self, call: LstmScan) -> list[Tensor]:
        """The four gates of every step."""
        return [call.drive.new_empty(4, *call.drive.shape[1:])]

    def forward(self, call: LstmScan) -> list[Tensor]:
        hidden, cells, saved = lstm_forward(
            call.drive, call.initial, call.initial_cell, call.factors, **_words(call)
        )
        return [hidden, cells, *saved]

    def backward(
        self, call: LstmScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return list(
            lstm_backward(
                grads[0],
                grads[1],
                call.drive,
                call.initial,
                call.initial_cell,
                call.factors,
                outputs[0],
                outputs[1],
                tuple(saved),
                **_words(call),
            )
        )


def _words(call: LstmScan) -> dict[str, Any]:
    return {
        "structure": call.structure,
        "masks": call.masks,
        "hold": call.hold,
        "hold_cell": call.hold_cell,
    }


def _call(call: LstmScan) -> Call:
    return describe(call.drive, call.factors, cell="lstm", **_words(call))
