"""What follows from a compiled backward scan: the gradients of low-rank factors, from the summaries
that both scans kept, and those of input matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.ops.cpu.library import CELLS, FactorStruct, Library, ScanStruct, as_it_lies
from passnet.ops.inputs import Inputs
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


def input_gradients(
    library: Library, inputs: Inputs, grad_drive: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Those of the matrices and the biases of features."""
    x, dtype = as_it_lies(inputs.x), grad_drive.dtype
    weight = torch.empty(inputs.weight.shape, dtype=dtype)
    bias = None if inputs.bias is None else torch.empty(inputs.bias.shape, dtype=dtype)
    call = _driven(grad_drive, inputs, input=x.data_ptr())
    library.input_gradients(call, weight, bias)
    return weight, bias


def features_gradient(library: Library, inputs: Inputs, grad_drive: Tensor) -> Tensor:
    """That of features."""
    weight = as_it_lies(inputs.weight)
    found = torch.empty(inputs.x.shape, dtype=grad_drive.dtype)
    library.features_gradient(_driven(grad_drive, inputs, weight=weight.data_ptr()), found)
    return found


def _driven(grad_drive: Tensor, inputs: Inputs, **addresses: int) -> ScanStruct:
    """As much of a scan as its inputs have to do with; the gradient is what a backward wrote."""
    gates, steps, batch, units = grad_drive.shape
    return ScanStruct(
        cell=CELLS["lstm" if gates == 4 else "gru_after"],
        is_double=grad_drive.dtype == torch.float64,
        steps=steps,
        batch=batch,
        units=units,
        threads=torch.get_num_threads(),
        width=inputs.x.shape[-1],
        grad_drive=grad_drive.data_ptr(),
        **addresses,
    )
