"""A module as an ONNX model with loops over time, and with names a reader knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import ClearMetadataAndDocStringPass, NameFixPass
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from passnet.export.loops import sizes_of_scans, write_loops
from passnet.export.names import Size, check_names, free_names, name_values, rename_sizes
from passnet.export.scans import decompositions
from passnet.export.translation import Sizes, translate
from passnet.layers.recurrent import RecurrentLayer


def build(
    module: nn.Module,
    given: tuple[Any, ...],
    *,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    metadata: Mapping[str, str],
) -> ir.Model:
    """The model of a module that is ready for it; layers have names for what is not named."""
    batches = []
    model = translate(module, given, _shapes(given), decompositions=decompositions(batches))
    graph = model.graph
    inputs, outputs = _own_names(module, given, len(graph.outputs))
    name_values(graph.inputs, inputs if input_names is None else input_names, "input")
    name_values(graph.outputs, outputs if output_names is None else output_names, "output")
    check_names(graph)
    known = [*_sizes_of_layer(module, graph.inputs[0]), *sizes_of_scans(model)]
    known += [(ir.SymbolicDim(str(size)), "batch") for size in batches]
    rename_sizes(graph, free_names(graph, known))
    write_loops(model)
    NameFixPass()(model)
    # PyTorch's notes on every node, such as where the source of a module lies on this machine.
    ClearMetadataAndDocStringPass()(model)
    model.metadata_props.update(metadata)
    return model


def _shapes(given: tuple[Any, ...]) -> list[Sizes]:
    """All sizes may be any but those of 1."""
    return [
        [size if size == 1 else None for size in part.shape]
        for part in pytree.tree_leaves(given)
        if isinstance(part, Tensor)
    ]


def _sizes_of_layer(module: nn.Module, first: ir.Value) -> list[tuple[Size, str]]:
    """How many steps and sequences a layer's input has, with these words."""
    if not isinstance(module, RecurrentLayer):
        return []
    assert first.dtype is not None and first.shape is not None
    *outer, inner = first.shape
    axes = outer if first.dtype.is_floating_point() else [*outer, inner]
    words = ("batch", "steps") if len(axes) == 2 and module.batch_first else ("steps", "batch")
    return list(zip(axes, words, strict=False))


def _own_names(
    module: nn.Module, given: tuple[Any, ...], outputs: int
) -> tuple[list[str] | None, list[str]]:
    """Names for inputs, where None leaves those of the arguments, and for outputs."""
    if not isinstance(module, RecurrentLayer):
        numbered = [f"output_{index}" for index in range(outputs)]
        return None, numbered if outputs > 1 else ["output"]
    states = module.state_names
    places = (["input"], list(states), ["lengths"])
    inputs = [
        name
        for names, argument in zip(places, given, strict=False)
        if argument is not None
        for name in names
    ]
    return inputs, ["output", *(f"next_{name}" for name in states)]
