"""How much memory a piece of work adds at its highest."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

import torch

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_bytes(work: Callable[[], object], device: str) -> int | None:
    """Bytes beyond what was there; None where the system does not tell."""
    return _on_cpu(work) if device == "cpu" else _on_gpu(work)


def _on_gpu(work: Callable[[], object]) -> int:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _on_cpu(work: Callable[[], object]) -> int | None:
    """What Linux says of the whole process, by pages; what was freed before is given back first."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _FORGET.write_text("5")  # the highest mark starts anew
    except (OSError, AttributeError):
        return None
    before = _kilobytes("VmRSS")
    work()
    return max(0, 1024 * (_kilobytes("VmHWM") - before))


def _kilobytes(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
