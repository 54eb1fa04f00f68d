"""Low-rank passthrough networks: GRUs, LSTMs and Highway networks with structured matrices.

`docs/layers.md` lists all classes and functions with their arguments. The command line is
`passnet`, or `python -m passnet`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passnet.compression import compress, compression_error
    from passnet.config.chrono import Chrono
    from passnet.config.matrix import (
        BlockDiagonal,
        BlockDiagonalPlusLowRank,
        Dense,
        LowRank,
        LowRankPlusDiagonal,
    )
    from passnet.config.parameters import paper_parameter_count
    from passnet.export import export_onnx
    from passnet.layers import (
        GRU,
        LSTM,
        Highway,
        UnitaryRNN,
        clip_row_norms_,
        count_parameters,
    )
    from passnet.ops.backend import BackendRefused

__version__ = "0.1.0.dev0"

__all__ = [
    "GRU",
    "LSTM",
    "BackendRefused",
    "BlockDiagonal",
    "BlockDiagonalPlusLowRank",
    "Chrono",
    "Dense",
    "Highway",
    "LowRank",
    "LowRankPlusDiagonal",
    "UnitaryRNN",
    "clip_row_norms_",
    "compress",
    "compression_error",
    "count_parameters",
    "export_onnx",
    "paper_parameter_count",
]

# Names are imported on first use, so that `passnet list` does not have to wait for PyTorch.
_MODULES = {
    "passnet.compression": ("compress", "compression_error"),
    "passnet.config.chrono": ("Chrono",),
    "passnet.config.matrix": (
        "BlockDiagonal",
        "BlockDiagonalPlusLowRank",
        "Dense",
        "LowRank",
        "LowRankPlusDiagonal",
    ),
    "passnet.config.parameters": ("paper_parameter_count",),
    "passnet.export": ("export_onnx",),
    "passnet.layers": (
        "GRU",
        "LSTM",
        "Highway",
        "UnitaryRNN",
        "clip_row_norms_",
        "count_parameters",
    ),
    "passnet.ops.backend": ("BackendRefused",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str):
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'passnet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
