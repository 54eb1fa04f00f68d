"""Names for what PyTorch's translation numbers: inputs, outputs and sizes that are free."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from passnet.export.signature import Shape, Signature

Size = int | ir.SymbolicDim
WORD = re.compile(r"[A-Za-z_]\w*")


def name_values(values: Sequence[ir.Value], names: Sequence[str] | None, what: str) -> None:
    """Give inputs or outputs these names; raises a sentence if they are not as many."""
    if names is None:
        return
    words = not isinstance(names, str) and all(isinstance(name, str) and name for name in names)
    if not words or len(names) != len(values) or len(set(names)) != len(names):
        raise ValueError(
            f"{what}_names={names!r}: give {len(values)} different names, one for each {what}"
        )
    for value, name in zip(values, names, strict=True):
        value.name = name


def check_names(graph: ir.Graph) -> None:
    """Raise a sentence where an output is called like an input, which no program can have."""
    twice = {value.name for value in graph.inputs} & {value.name for value in graph.outputs}
    if twice:
        raise ValueError(
            f"{', '.join(sorted(map(repr, twice)))} would be an input and an output: give other "
            "output_names"
        )


def free_names(graph: ir.Graph, known: Iterable[tuple[Size, str]]) -> dict[str, str]:
    """What to call every free size: those known by their names, others by their place."""
    names: dict[str, str] = {}
    for size, word in known:
        _call(names, size, word)
    for value in graph.inputs:
        for axis, size in enumerate(value.shape or ()):
            _call(names, size, f"{value.name}_{axis}")
    return names


def rename_sizes(graph: ir.Graph, names: Mapping[str, str]) -> None:
    """Sizes by other names, also inside expressions such as `s1 + s2`."""
    inner = (output for node in graph for output in node.outputs)
    for value in {*graph.inputs, *inner, *graph.outputs}:
        if value.shape is not None:
            value.shape = ir.Shape([_renamed(size, names) for size in value.shape])


def signature(graph: ir.Graph) -> Signature:
    """The names and shapes of a graph's inputs and outputs."""
    inputs, outputs = (
        {str(value.name): _shape(value) for value in values}
        for values in (graph.inputs, graph.outputs)
    )
    return Signature(inputs, outputs)


def _shape(value: ir.Value) -> Shape:
    return tuple(size if isinstance(size, int) else str(size.value) for size in value.shape or ())


def _call(names: dict[str, str], size: Size, word: str) -> None:
    """Note a name for a size that is one free number and has none yet."""
    if isinstance(size, int) or size.value is None or not WORD.fullmatch(size.value):
        return
    taken = set(names.values())
    while word in taken:
        word += "_"
    names.setdefault(size.value, word)


def _renamed(size: Size, names: Mapping[str, str]) -> int | str | None:
    if isinstance(size, int) or size.value is None:
        return size if isinstance(size, int) else None
    text = WORD.sub(lambda word: names.get(word[0], word[0]), size.value)
    return int(text) if text.isdigit() else text
