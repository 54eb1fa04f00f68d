"""The gradients of low-rank factors, from the summaries that both compiled scans kept."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.ops.cpu.library import FactorStruct, Library, ScanStruct
from passnet.ops.scan import ScanCall


def summaries_like(call: ScanCall, vectors: int) -> list[Tensor]:
    """Room `[T, B, s]` for what a scan sums up at every step, none for dense matrices.

    That is R x forwards and L^T dy backwards. `vectors` counts the x of a step, where no gate has a
    mask of its own.
    """
    if call.structure == "dense":
        return []
    gates, steps, batch, _ = call.shape
    held, rank, _ = call.factors[1].shape
    apart = held == gates or (call.masks is not None and len(call.masks) == gates)
    return [call.like.new_empty((steps, batch, (gates if apart else vectors) * rank))]


def factor_gradients(
    library: Library, struct: ScanStruct, call: ScanCall, ahead: Tensor
) -> list[Tensor]:
    """[that of every factor, of the inner bias if there is one].

    `struct` is what a backward scan was done with, `ahead` the summaries of its forward.
    """
    factors = list(call.factors) if call.inner_bias is None else [*call.factors, call.inner_bias]
    found = [torch.empty(factor.shape, dtype=call.dtype) for factor in factors]
    to = FactorStruct(ahead.data_ptr())
    names = ("grad_expand", "grad_project", "grad_diagonal")
    for name, tensor in zip(names, found[: len(call.factors)], strict=False):
        setattr(to, name, tensor.data_ptr())
    if call.inner_bias is not None:
        to.grad_inner = found[-1].data_ptr()
    library.factor_gradients(struct, to)
    return found
