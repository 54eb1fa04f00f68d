"""Tensors as kernels take them."""

from __future__ import annotations

from math import gcd
from typing import overload

from torch import Tensor


@overload
def dense(tensor: Tensor) -> Tensor: ...
@overload
def dense(tensor: None) -> None: ...
@overload
def dense(tensor: Tensor | None) -> Tensor | None: ...
def dense(tensor):
    """One row after the other, with their own signs; nothing where there is nothing."""
    if tensor is None:
        return None
    whole = tensor.contiguous()
    # Asked first: a pass that did anything but launch kernels is not done again as it was.
    return whole.resolve_neg() if whole.is_neg() else whole


@overload
def aligned(tensor: Tensor) -> Tensor: ...
@overload
def aligned(tensor: None) -> None: ...
@overload
def aligned(tensor: Tensor | None) -> Tensor | None: ...
def aligned(tensor):
    """Dense, and at an address from which as many bytes can be copied at once as divide a row."""
    if tensor is None:
        return None
    whole = dense(tensor)
    beside = whole.data_ptr() % 16
    if beside and beside % gcd(16, whole.shape[-1] * whole.element_size()):
        return whole.clone()
    return whole
