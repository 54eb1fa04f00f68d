"""The CUDA GRU scan as an engine of the registered op."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor

from passnet.ops.cuda.call import Call, describe, refuses_device
from passnet.ops.cuda.scan import gru_backward, gru_forward, refuses
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.scan import Engine


@final
class CudaGru(Engine[GruScan]):
    """Persistent kernels that keep state and factors on chip for a whole sequence."""

    name = "cuda"

    def refuses(self, call: GruScan) -> str | None:
        return refuses_device(call.drive, call.structure) or refuses(
            _call(call), device=call.drive.device.index or 0
        )

    def saved_like(self, call: GruScan) -> list[Tensor]:
        """The gates of every step, reset first; reset-after also what its reset gate multiplied."""
        count = 4 if call.reset == "after" else 3
        return [call.drive.new_empty(count, *call.drive.shape[1:])]

    def forward(self, call: GruScan) -> list[Tensor]:
        states, saved = gru_forward(call.drive, call.initial, call.factors, **_words(call))
        return [states, *saved]

    def backward(
        self, call: GruScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return list(
            gru_backward(
                grads[0],
                call.drive,
                call.initial,
                call.factors,
                outputs[0],
                tuple(saved),
                **_words(call),
            )
        )


def _words(call: GruScan) -> dict[str, Any]:
    return {
        "structure": call.structure,
        "reset": call.reset,
        "masks": call.masks,
        "hold": call.hold,
        "inner_bias": call.inner_bias,
    }


def _call(call: GruScan) -> Call:
    words = _words(call)
    cell = "gru_after" if words.pop("reset") == "after" else "gru_before"
    return describe(call.drive, call.factors, cell=cell, **words)
