"""Which dtype a scan keeps its running state in, and how it meets autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

_NOTHING = nullcontext()


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """float32 for the half types, otherwise the dtype itself.

    A carry gate near 1 adds less to the state per step than half precision can resolve.
    """
    return torch.promote_types(dtype, torch.float32)


def in_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor.to(dtype)`, which takes a microsecond even where there is nothing to do."""
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


def autocast_on(kind: str) -> bool:
    """Whether autocast is on for a type of device, the meta device too, which has none."""
    return kind != "meta" and torch.is_autocast_enabled(kind)


def no_autocast(device: torch.device) -> AbstractContextManager:
    """A scan's inputs are already of one dtype: autocast has nothing left to decide inside it."""
    if not autocast_on(device.type):
        return _NOTHING
    return torch.autocast(device.type, enabled=False)
