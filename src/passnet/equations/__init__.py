"""The paper as pure functions of tensors: each equation stands here once and nowhere else."""

from passnet.equations.gru import GRU_GATES, gru_gates, gru_step
from passnet.equations.highway import HIGHWAY_GATES, highway_layer
from passnet.equations.lstm import LSTM_GATES, lstm_gates, lstm_step
from passnet.equations.passthrough import hold_step, passthrough_step
from passnet.equations.structure import STRUCTURES, Structure
from passnet.equations.unitary import UnitaryFactors, modulus_relu, unitary_map, urnn_step

__all__ = [
    "GRU_GATES",
    "HIGHWAY_GATES",
    "LSTM_GATES",
    "STRUCTURES",
    "Structure",
    "UnitaryFactors",
    "gru_gates",
    "gru_step",
    "highway_layer",
    "hold_step",
    "lstm_gates",
    "lstm_step",
    "modulus_relu",
    "passthrough_step",
    "unitary_map",
    "urnn_step",
]
