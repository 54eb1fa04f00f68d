"""One step with parameters: what a layer repeats over time or depth."""

from passnet.cells.batch_norm import BatchNorm
from passnet.cells.gru import GruCell
from passnet.cells.highway import HighwayCell
from passnet.cells.lstm import LstmCell
from passnet.cells.recurrent import RecurrentCell
from passnet.cells.urnn import UnitaryCell

__all__ = ["BatchNorm", "GruCell", "HighwayCell", "LstmCell", "RecurrentCell", "UnitaryCell"]
