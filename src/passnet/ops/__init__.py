"""How scans over time run, a folder for each with its backends; the norm and gate of Highway."""

from passnet.ops.backend import BackendRefused
from passnet.ops.gru_scan import GruScan, gru_backends
from passnet.ops.lstm_scan import LstmScan, lstm_backends
from passnet.ops.unitary_scan import UnitaryScan, unitary_backends

__all__ = [
    "BackendRefused",
    "GruScan",
    "LstmScan",
    "UnitaryScan",
    "gru_backends",
    "lstm_backends",
    "unitary_backends",
]
