"""Low-rank passthrough networks: GRUs, LSTMs and Highway networks with structured matrices."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passnet.config.chrono import Chrono
    from passnet.config.matrix import (
        BlockDiagonal,
        BlockDiagonalPlusLowRank,
        Dense,
        LowRank,
        LowRankPlusDiagonal,
    )
    from passnet.config.parameters import paper_parameter_count
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
    "count_parameters",
    "paper_parameter_count",
]

# Names are found on first use, so that `passnet list` never waits for PyTorch.
_ROOMS = {
    "passnet.config.chrono": ("Chrono",),
    "passnet.config.matrix": (
        "BlockDiagonal",
        "BlockDiagonalPlusLowRank",
        "Dense",
        "LowRank",
        "LowRankPlusDiagonal",
    ),
    "passnet.config.parameters": ("paper_parameter_count",),
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
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'passnet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
