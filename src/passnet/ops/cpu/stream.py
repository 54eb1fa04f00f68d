"""One step of a cell for a few sequences, with nothing to differentiate: one call of the library.

A registered op costs more than the arithmetic of one step, so streaming goes past it; what it
computes is the same compiled scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from passnet.ops.cell_tensors import CellTensors
from passnet.ops.cpu.library import Library, ScanStruct, StepStruct, installed

CELLS = {"gru_after": 0, "gru_before": 1, "lstm": 2}
FEW = 4
"""Sequences up to which a step reads the factors as they are stored."""

_FACTORS = {
    "dense": ("expand",),
    "low_rank": ("expand", "project"),
    "low_rank_plus_diagonal": ("expand", "project", "diagonal"),
}


class CellStep:
    """A cell's tensors laid out once; whoever keeps it watches that they stay where they were."""

    backend: ClassVar[str] = "cpu"
    most: ClassVar[float] = FEW
    """Sequences a step takes."""

    def __init__(self, cell: CellTensors, library: Library) -> None:
        _, units, width = cell.input_weight.shape
        tensors: dict[str, Tensor] = dict(zip(_FACTORS[cell.structure], cell.factors, strict=True))
        if cell.inner_bias is not None:
            tensors["inner_bias"] = cell.inner_bias
        project = tensors.get("project")
        rank = 0 if project is None else project.shape[1]
        tied = project is not None and project.shape[0] == 1
        double = cell.input_weight.dtype == torch.float64
        call = ScanStruct(CELLS[cell.kind], double, 1, 0, units, rank, tied, 0, 0, 0, 1)
        _point(call, tensors)
        given = StepStruct(width)
        bias = {} if cell.bias is None else {"bias": cell.bias}
        _point(given, {"weight": cell.input_weight} | bias)
        self._call, self._given, self._library = bytes(call), bytes(given), library
        self.width = width
        self.dtype, self.device = cell.input_weight.dtype, cell.input_weight.device

    def __call__(self, x: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The next state, from contiguous x and the state before, of any shape.

        x is `[B, m]` features, or `[B]` symbols that exist.
        """
        call = ScanStruct.from_buffer_copy(self._call)
        given = StepStruct.from_buffer_copy(self._given)
        following = tuple([torch.empty_like(part) for part in state])
        call.batch = x.shape[0]
        if x.is_floating_point():
            given.input = x.data_ptr()
        else:
            given.symbols = x.data_ptr()
        call.initial, call.states = state[0].data_ptr(), following[0].data_ptr()
        if len(state) > 1:
            call.initial_cell, call.cells = state[1].data_ptr(), following[1].data_ptr()
        self._library.step(call, given)
        return following


def prepare(cell: CellTensors) -> CellStep | None:
    """The step of this cell, or None where the compiled scan has none for it."""
    library, weight = installed(), cell.input_weight
    served = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    if isinstance(library, str) or cell.structure not in _FACTORS or not (served and cell.alike()):
        return None
    return CellStep(cell, library)


def _point(struct, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        setattr(struct, name, tensor.data_ptr())
