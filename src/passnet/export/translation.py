"""A module as an ONNX model, by PyTorch's own exporters."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.fx.experimental.symbolic_shapes import is_concrete_int
from torch.utils import _pytree as pytree

from passnet.export.errors import Unexportable
from passnet.export.quiet import quietly

Sizes = Sequence[object]
"""Of a tensor: a number for a size that stays so, something else for one that may be any."""


def translate(
    module: nn.Module,
    given: tuple[Any, ...],
    shapes: Iterable[Sizes],
    *,
    decompositions: Mapping[Any, Callable[..., Any]],
) -> ir.Model:
    """The model, optimised; there is a shape for each tensor among `given`."""
    with quietly():
        program = _read(module, given, shapes)
        # Again with those sizes only that it left free: the others are left in it as symbols, too.
        program = _read(module, given, _found(program, given))
        # What engines keep for a backward pass, which nobody asks for here.
        program.graph_module.graph.eliminate_dead_code()
        try:
            program = program.run_decompositions(
                {torch.ops.aten.full.default: _full, **decompositions}
            )
        except Unexportable as error:  # to which PyTorch adds where it was
            raise Unexportable(str(error).splitlines()[0]) from error
        try:
            found = torch.onnx.export(program, (), dynamo=True, verbose=False)
        except torch.onnx.OnnxExporterError as error:
            raise Unexportable(_reason(module, "torch.onnx", error)) from error
    assert found is not None
    return found.model


def _full(shape: Sequence[Any], number: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """In double precision as a sum: torch.onnx writes any number in single precision."""
    if dtype is not torch.float64 or not isinstance(number, float):
        return NotImplemented
    written = float(np.float32(number))
    rest = number - written
    if not written or not 0 < abs(rest) < math.inf:
        return NotImplemented
    first, second = (torch.full(shape, n, dtype=dtype, **options) for n in (written, rest))
    return first + second


def _read(module: nn.Module, given: tuple[Any, ...], shapes: Iterable[Sizes]) -> ExportedProgram:
    free = ShapesCollection()
    for tensor, shape in zip(_tensors(given), shapes, strict=True):
        free[tensor] = [Dim.STATIC if isinstance(size, int) else Dim.AUTO for size in shape]
    sizes, said = free.dynamic_shapes(module, given), StringIO()
    try:
        with redirect_stderr(said):  # to which it prints its whole graph when it fails
            program = torch.export.export(module, given, dynamic_shapes=sizes, strict=False)
    except Exception as error:  # of many kinds, which are PyTorch's own
        raise Unexportable(_reason(module, "torch.export", error)) from error
    sys.stderr.write(said.getvalue())
    return program


def _found(program: ExportedProgram, given: tuple[Any, ...]) -> list[Sizes]:
    """The shapes that a program has settled on."""
    values = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    arguments = zip(pytree.tree_leaves(given), program.graph_signature.user_inputs, strict=True)
    return [
        [int(size) if is_concrete_int(size) else None for size in values[name].shape]
        for leaf, name in arguments
        if isinstance(leaf, Tensor)
    ]


def _tensors(given: tuple[Any, ...]) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor)]


def _reason(module: nn.Module, by: str, error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return (
        f"{by} of PyTorch cannot translate {type(module).__name__} "
        f"({type(error).__name__}: {first}): export the part of it that can be"
    )
