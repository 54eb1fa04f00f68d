"""The modules users write: drop-in recurrent layers, Highway stacks and the uRNN."""

from passnet.layers.counting import count_parameters
from passnet.layers.gru import GRU
from passnet.layers.highway import Highway
from passnet.layers.lstm import LSTM
from passnet.layers.row_norms import clip_row_norms_
from passnet.layers.unitary import UnitaryRNN

__all__ = ["GRU", "LSTM", "Highway", "UnitaryRNN", "clip_row_norms_", "count_parameters"]
