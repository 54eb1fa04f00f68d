"""The GRU over time."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from passnet.ops.backend import Backend, choose
from passnet.ops.gru_scan.call import GruScan
from passnet.ops.gru_scan.cpu import CpuGru
from passnet.ops.gru_scan.cuda import CudaGru
from passnet.ops.gru_scan.eager import EagerGru
from passnet.ops.gru_scan.reference import gru_reference
from passnet.ops.scan_op import ScanOp

__all__ = ["GruScan", "gru_backends", "gru_scan"]

_op = ScanOp(
    "gru_scan",
    GruScan,
    reference=gru_reference,
    engines=(CudaGru(), CpuGru(), EagerGru()),
)


def gru_backends() -> tuple[Backend[GruScan], ...]:
    """All ways to run a GRU scan, fastest first."""
    return _op.backends


def gru_scan(call: GruScan, *, backend: str = "auto") -> Float[Tensor, "T B n"]:
    """Every state of the scan."""
    return choose(gru_backends(), backend, call).run(call)[0]
