"""One step of a cell for a few sequences, with nothing to differentiate: one call of the library.

A registered op costs more than the arithmetic of one step, so streaming goes past it; what it
computes is the same compiled scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from passnet.ops.cell_tensors import CellTensors
from passnet.ops.cpu.library import (
    CELLS,
    NO_MEMORY,
    Library,
    ScanStruct,
    installed,
    step_tensors,
)

FEW = 4
"""Sequences up to which a step reads the factors as they are stored."""

_threads = torch.get_num_threads

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
        _, self.units, self.width = cell.input_weight.shape
        names = (*_FACTORS[cell.structure], "weight", "bias", "inner_bias")
        tensors = dict(
            zip(names, (*cell.factors, cell.input_weight, cell.bias, cell.inner_bias), strict=True)
        )
        project = tensors.get("project")
        rank = 0 if project is None else project.shape[1]
        tied = project is not None and project.shape[0] == 1
        double = cell.input_weight.dtype == torch.float64
        call = ScanStruct(
            CELLS[cell.kind], double, 1, 0, self.units, rank, tied, 0, 0, 0, 1, self.width
        )
        for name, tensor in tensors.items():
            if tensor is not None:
                setattr(call, name, tensor.data_ptr())
        self._step = library.step(call)
        self.dtype, self.device = cell.input_weight.dtype, cell.input_weight.device

    def __call__(
        self, x: Tensor, state: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """The next state, from contiguous x and the state before, of any shape.

        x is `[B, m]` features, or `[B]` symbols that exist. What is given as `output` is written
        like the first part of the state.
        """
        following = tuple([torch.empty_like(part) for part in state])
        given, symbols = x.data_ptr(), not x.is_floating_point()
        two = len(state) > 1
        tensors = step_tensors(
            x.shape[0],
            _threads(),
            0 if symbols else given,
            given if symbols else 0,
            state[0].data_ptr(),
            state[1].data_ptr() if two else 0,
            following[0].data_ptr(),
            following[1].data_ptr() if two else 0,
            0 if output is None else output.data_ptr(),
        )
        if self._step(tensors):
            raise MemoryError(NO_MEMORY.format(self.units))
        return following


def prepare(cell: CellTensors) -> CellStep | None:
    """The step of this cell, or None where the compiled scan has none for it."""
    library, weight = installed(), cell.input_weight
    served = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    if isinstance(library, str) or cell.structure not in _FACTORS or not (served and cell.alike()):
        return None
    return CellStep(cell, library)
