"""The unitary RNN over time."""

from __future__ import annotations

from passnet.ops.backend import Backend
from passnet.ops.scan_op import ScanOp
from passnet.ops.unitary_scan.call import UnitaryScan
from passnet.ops.unitary_scan.cuda import CudaUnitary
from passnet.ops.unitary_scan.reference import unitary_reference

__all__ = ["UnitaryScan", "unitary_backends"]

_op = ScanOp("unitary_scan", UnitaryScan, reference=unitary_reference, engines=(CudaUnitary(),))


def unitary_backends() -> tuple[Backend[UnitaryScan], ...]:
    """All ways to run a unitary scan, fastest first."""
    return _op.backends
