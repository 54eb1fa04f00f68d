"""How the scans over time run: one folder for each op, its backends side by side."""

from passnet.ops.backend import BackendRefused
from passnet.ops.gru_scan import GruScan, gru_backends, gru_scan
from passnet.ops.lstm_scan import LstmScan, lstm_backends, lstm_scan

__all__ = [
    "BackendRefused",
    "GruScan",
    "LstmScan",
    "gru_backends",
    "gru_scan",
    "lstm_backends",
    "lstm_scan",
]
