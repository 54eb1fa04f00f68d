"""One step of a cell on a GPU, with nothing to differentiate: the kernels of a sequence of one.

What stays the same from step to step is looked up once: in a stream that would take longer than
the kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import ClassVar

import torch
from torch import Tensor

from passnet.ops.cell_tensors import CellTensors
from passnet.ops.cuda import passes
from passnet.ops.cuda.call import STRUCTURES, Call, known, matrices
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.families import family_of
from passnet.ops.cuda.inputs import drive_of
from passnet.ops.inputs import Inputs


class CellStep:
    """A cell's tensors and kernels; whoever keeps it watches that the tensors stay in place."""

    backend: ClassVar[str] = "cuda"
    most: ClassVar[float] = math.inf
    """Sequences a step takes."""

    def __init__(self, cell: CellTensors, call: Call, chip: Chip, family: ModuleType) -> None:
        self._cell, self._where = cell, (chip, family, call)
        unused = (None, None, None)  # masks and holds
        self._given = (*(*cell.factors, None, None)[:3], *unused, cell.inner_bias)
        _, self.units, self.width = cell.input_weight.shape
        self.dtype, self.device = cell.input_weight.dtype, cell.input_weight.device

    def __call__(
        self, x: Tensor, state: Sequence[Tensor], output: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """The next state from the one before, `[B, n]` or `[1, B, n]`, and features or symbols.

        What is given as `output` is written like the first part of the state.
        """
        chip, family, call = self._where
        cell = self._cell
        following = tuple([torch.empty_like(part) for part in state])
        outputs = following if following[0].dim() == 3 else [part[None] for part in following]
        saved = passes.kept(call, outputs[0])
        source = Inputs(x.unsqueeze(0), cell.input_weight, cell.bias)
        drive = drive_of(source, chip, out=passes.drive_place(call, saved))
        given = passes.Given(*(*state, None)[:2], *self._given)  # pyright: ignore
        passes.forward(chip, family, call, drive, given, outputs, saved)
        if output is not None:
            output.copy_(outputs[0][0])
        return following


def prepare(cell: CellTensors, chip: Chip) -> CellStep | None:
    """The step of this cell on a chip, or None where no kernel serves it."""
    if cell.structure not in STRUCTURES or not cell.alike() or chip.unavailable is not None:
        return None
    _, units, _ = cell.input_weight.shape
    rank, diagonal, tied = matrices(cell.structure, cell.factors)
    nothing = 0, 0, 0  # masked or held
    inner = cell.inner_bias is not None
    call = known(cell.kind, units, rank, cell.input_weight.dtype, diagonal, tied, *nothing, inner)
    family = family_of(call, chip)
    return None if isinstance(family, str) else CellStep(cell, call, chip, family)
