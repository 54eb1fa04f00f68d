"""The LSTM over time."""

from __future__ import annotations

from passnet.ops.backend import Backend
from passnet.ops.lstm_scan.call import LstmScan
from passnet.ops.lstm_scan.cpu import CpuLstm
from passnet.ops.lstm_scan.cuda import CudaLstm
from passnet.ops.lstm_scan.eager import EagerLstm
from passnet.ops.lstm_scan.reference import lstm_reference
from passnet.ops.scan_op import ScanOp

__all__ = ["LstmScan", "lstm_backends"]

_op = ScanOp(
    "lstm_scan",
    LstmScan,
    reference=lstm_reference,
    engines=(CudaLstm(), CpuLstm(), EagerLstm()),
)


def lstm_backends() -> tuple[Backend[LstmScan], ...]:
    """All ways to run an LSTM scan, fastest first."""
    return _op.backends
