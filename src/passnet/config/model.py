"""The network of an experiment: cell, structure, start, regularisation and output head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from passnet.config.chrono import Chrono
from passnet.config.errors import ConfigurationError
from passnet.config.fields import check_range, check_types
from passnet.config.initialisation import Initialisation
from passnet.config.matrix import Dense, LowRank, LowRankPlusDiagonal, MatrixSpec

Cell = Literal["gru", "lstm", "highway", "urnn"]

GATES = {"gru": 3, "lstm": 4, "highway": 2}

_DENSE = Dense()

_SERVES = {
    "num_layers": ("gru", "lstm", "highway"),
    "reset": ("gru",),
    "recurrent_bias": ("gru",),
    "learn_initial_state": ("gru", "lstm"),
    "carry_bias": ("gru", "lstm", "highway"),
    "matrix": ("gru", "lstm", "highway"),
    "weight_norm": ("gru", "lstm"),
    "max_row_norm": ("gru", "lstm", "highway"),
    "dropout_input": ("gru", "lstm", "highway"),
    "dropout_input_per": ("gru", "lstm"),
    "dropout_state": ("gru", "lstm", "highway"),
    "dropout_output": ("gru", "lstm", "highway"),
    "zoneout": ("gru", "lstm"),
    "activation": ("highway",),
    "batch_norm": ("highway",),
    "dropout_bottleneck": ("highway",),
}


@dataclass(frozen=True)
class Model:
    """A network between its inputs and outputs, whose sizes the task gives.

    Fields named as arguments of the layers mean what they mean there. A Highway network has
    `num_layers` layers of depth, its `dropout_state` acts on each layer's input, and its transform
    gates start at minus `carry_bias`. The uRNN always learns its initial state. `head_hidden`
    puts one hidden ReLU layer of that many units before the output matrix. Probabilities are of
    dropping, not of keeping.
    """

    size: int
    cell: Cell = "gru"
    num_layers: int = 1
    matrix: MatrixSpec = _DENSE
    reset: Literal["after", "before"] = "after"
    carry_bias: float | Chrono | None = None
    recurrent_bias: bool = False
    learn_initial_state: bool = False
    init: Initialisation = "glorot"
    weight_norm: bool = False
    max_row_norm: float | None = None
    dropout_input: float = 0.0
    dropout_input_per: Literal["feature", "step"] = "feature"
    dropout_state: float = 0.0
    dropout_output: float = 0.0
    dropout_bottleneck: float = 0.0
    zoneout: float = 0.0
    activation: Literal["relu", "tanh"] = "relu"
    batch_norm: bool = False
    head_hidden: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "size", "num_layers", "head_hidden", low=1)
        check_range(self, "max_row_norm", low=0, open_low=True)
        drops = ("dropout_input", "dropout_state", "dropout_output", "dropout_bottleneck")
        check_range(self, *drops, "zoneout", low=0, high=1, open_high=True)
        self.matrix.check(self.size)
        for name, cells in _SERVES.items():
            if not self.serves(name) and getattr(self, name) != _default(name):
                raise ConfigurationError(
                    f"{name}: got {getattr(self, name)!r} with cell {self.cell!r}, but it serves "
                    f"only {' and '.join(cells)}: leave it at {_default(name)!r}"
                )

        if self.dropout_bottleneck and not isinstance(self.matrix, LowRank | LowRankPlusDiagonal):
            raise ConfigurationError(
                f"dropout_bottleneck: got {self.dropout_bottleneck!r} with matrix {self.matrix!r}, "
                "which has no bottleneck: set it to 0, or give a LowRank or LowRankPlusDiagonal "
                "matrix"
            )
        if self.cell == "highway" and isinstance(self.carry_bias, Chrono):
            raise ConfigurationError(
                f"carry_bias: got {self.carry_bias!r} with cell 'highway', which has no time to "
                "spread over: give a number"
            )
        if self.recurrent_bias and self.reset == "before":
            raise ConfigurationError(
                "recurrent_bias: got True with reset 'before', where it is the ordinary bias once "
                "more: set one of recurrent_bias=false and reset=after"
            )

    def serves(self, name: str) -> bool:
        """Whether a field means anything with this cell."""
        return self.cell in _SERVES.get(name, (self.cell,))

    @property
    def gates(self) -> int:
        """Gates with a structured matrix each; the uRNN has none."""
        return GATES.get(self.cell, 0)

    @property
    def structure(self) -> str:
        """The state matrices in a few words for tables."""
        return "unitary" if self.cell == "urnn" else self.matrix.describe()


def _default(name: str) -> object:
    return Model.__dataclass_fields__[name].default
