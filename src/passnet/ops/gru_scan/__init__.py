"""The GRU over time."""

from __future__ import annotations

from passnet.ops.backend import Backend
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.gru_scan.cpu import CpuGru
from passnet.ops.gru_scan.cuda import CudaGru
from passnet.ops.gru_scan.eager import EagerGru
from passnet.ops.gru_scan.reference import gru_reference
from passnet.ops.scan_op import ScanOp

__all__ = ["GruScan", "gru_backends"]

_op = ScanOp(
    "gru_scan",
    GruScan,
    reference=gru_reference,
    engines=(CudaGru(), CpuGru(), EagerGru()),
)


def gru_backends() -> tuple[Backend[GruScan], ...]:
    """All ways to run a GRU scan, fastest first."""
    return _op.backends
