"""In an ONNX model: placeholders of scans become ONNX's own loop over time, Scan."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import torch

from passnet.export.names import Size, rename_sizes
from passnet.export.scans import DOMAIN, SCANS, Step
from passnet.export.translation import translate

SOME = 3
"""How many sequences an example has where any number may come."""


def sizes_of_scans(model: ir.Model) -> Iterator[tuple[Size, str]]:
    """How many steps and sequences each placeholder has, with these words."""
    for node in _placeholders(model.graph):
        drive = _tensors(node)[0].shape
        assert drive is not None
        yield drive[1], "steps"
        yield drive[2], "batch"


def write_loops(model: ir.Model) -> None:
    """Replace every placeholder by a Scan."""
    graph = model.graph
    for index, node in enumerate(_placeholders(graph)):
        loop = _loop(graph, node, name=f"{node.op_type}_{index}")
        graph.insert_before(node, loop)
        for old, new in zip(node.outputs, loop.outputs[len(node.outputs) :], strict=True):
            new.name, new.shape, new.type = old.name, old.shape, old.type
            old.name = None
            old.replace_all_uses_with(new, replace_graph_outputs=True)
        graph.remove(node, safe=True)
    graph.opset_imports.pop(DOMAIN, None)


def _placeholders(graph: ir.Graph) -> list[ir.Node]:
    return [node for node in graph if node.domain == DOMAIN]


def _tensors(placeholder: ir.Node) -> list[ir.Value]:
    return [value for value in placeholder.inputs if value is not None]


def _loop(graph: ir.Graph, placeholder: ir.Node, *, name: str) -> ir.Node:
    """The Scan: first the states after the last step, then those after every step."""
    tensors = _tensors(placeholder)
    count = len(placeholder.outputs)
    starts, axes = range(1, 1 + count), _time_axes(placeholder)
    body = _step(tensors, placeholder, axes)
    body.name = name
    given = list(body.inputs)
    body.inputs[:] = [given[index] for index in (*starts, *axes)]
    for index in set(range(len(tensors))) - {*starts, *axes}:
        given[index].replace_all_uses_with(tensors[index])
    for constant in list(body.initializers.values()):
        body.initializers.pop(str(constant.name))
        constant.name = f"{name}/{constant.name}"
        graph.register_initializer(constant)
    for node in body:
        node.name = f"{name}/{node.name}"
    for value in (*body.inputs, *(output for node in body for output in node.outputs)):
        value.name = f"{name}/{value.name}"  # the same name may not stand inside and outside
    _move_out(body, graph, placeholder)
    for state in list(body.outputs):
        seen = ir.Value(name=f"{state.name}_seen", shape=state.shape, type=state.type)
        body.append(ir.Node("", "Identity", [state], outputs=[seen], name=seen.name))
        body.outputs.append(seen)
    return ir.Node(
        "",
        "Scan",
        [tensors[index] for index in (*starts, *axes)],
        [
            ir.AttrGraph("body", body),
            ir.AttrInt64("num_scan_inputs", len(axes)),
            ir.AttrInt64s("scan_input_axes", list(axes.values())),
        ],
        num_outputs=2 * count,
        name=name,
    )


def _time_axes(placeholder: ir.Node) -> dict[int, int]:
    """The inputs that differ from step to step, with their axis of time: the drive, and holds."""
    live = placeholder.attributes["live"].as_int()
    words = placeholder.attributes["layout"].as_string().split()
    constants = words[len(words) - (len(placeholder.inputs) - live) :]
    holds = {live + i: 0 for i, word in enumerate(constants) if word.startswith("hold")}
    return {0: 1} | holds


def _step(tensors: list[ir.Value], placeholder: ir.Node, axes: dict[int, int]) -> ir.Graph:
    """One step as ONNX: its inputs are the placeholder's without time, its outputs the states."""
    step = Step(
        SCANS[placeholder.op_type],
        placeholder.attributes["layout"].as_string(),
        placeholder.attributes["live"].as_int(),
    )
    shapes = [list(value.shape or ()) for value in tensors]
    for index, axis in axes.items():
        del shapes[index][axis]
    examples = []
    for value, shape in zip(tensors, shapes, strict=True):
        assert value.dtype is not None
        sizes = [size if isinstance(size, int) else SOME for size in shape]
        examples.append(torch.from_numpy(np.zeros(sizes, value.dtype.numpy())))
    graph = translate(step, tuple(examples), shapes, decompositions={}).graph
    names = {}
    for value, shape in zip(graph.inputs, shapes, strict=True):
        for inner, outer in zip(value.shape or (), shape, strict=True):
            if not isinstance(inner, int) and not isinstance(outer, int):
                names[str(inner.value)] = str(outer.value)
    rename_sizes(graph, names)
    return graph


def _move_out(body: ir.Graph, graph: ir.Graph, before: ir.Node) -> None:
    """Compute what no step changes once, in front of the loop."""
    inside = set(body.inputs)
    for node in list(body):
        if inside.isdisjoint(node.inputs):
            body.remove(node)
            graph.insert_before(before, node)
        else:
            inside.update(node.outputs)
