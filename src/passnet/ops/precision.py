"""Which dtype a scan keeps its running state in, and how it meets autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


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


def without_autocast(
    device: torch.device, compute: Callable[..., Result], *given: object
) -> Result:
    """`compute(*given)`; a scan's inputs are already of one dtype, and nothing is left to decide.

    A function: entering a context that does nothing takes longer than asking whether to.
    """
    if not autocast_on(device.type):
        return compute(*given)
    with torch.autocast(device.type, enabled=False):
        return compute(*given)
