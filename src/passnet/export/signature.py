"""What a program takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Signature:
    """Shapes by name, in order; a word in a shape stands for any size, the same wherever it is."""

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]

    def __str__(self) -> str:
        return f"{_listed(self.inputs)} -> {_listed(self.outputs)}"


def _listed(shapes: Mapping[str, Shape]) -> str:
    return ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in shapes.items())
