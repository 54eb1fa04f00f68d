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

from passnet.ops.cuda import passes
from passnet.ops.cuda.call import STRUCTURES, Call, known, matrices
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.engine import room_of
from passnet.ops.cuda.inputs import drive_of
from passnet.ops.inputs import Inputs


class CellStep:
    """A cell's tensors and kernels; whoever keeps it watches that the tensors stay in place."""

    backend: ClassVar[str] = "cuda"
    most: ClassVar[float] = math.inf
    """Sequences a step takes."""

    def __init__(
        self,
        call: Call,
        factors: Sequence[Tensor],
        *,
        input_weight: Tensor,
        bias: Tensor | None,
        inner_bias: Tensor | None,
        chip: Chip,
        room: ModuleType,
    ) -> None:
        self._call, self._chip, self._room = call, chip, room
        unused = (None, None, None)  # masks and holds
        self._given = (*(*factors, None, None)[:3], *unused)
        self._weight, self._bias, self._inner_bias = input_weight, bias, inner_bias
        self.width, self.dtype, self.device = (
            input_weight.shape[-1],
            call.dtype,
            input_weight.device,
        )

    def __call__(self, x: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The next state, `[1, B, n]` each, from contiguous x `[B, m]` and the state before."""
        following = tuple([torch.empty_like(part) for part in state])
        saved = passes.kept(self._call, steps=1, like=following[0])
        source = Inputs(x.unsqueeze(0), self._weight, self._bias)
        drive = drive_of(source, self._chip, room=passes.drive_room(self._call, saved))
        given, inner_bias = (*(*state, None)[:2], *self._given), self._inner_bias
        where = self._chip, self._room, self._call
        passes.launch_forward(*where, drive, given, inner_bias, outputs=following, saved=saved)
        return following


def prepare(
    kind: str,
    structure: str,
    factors: Sequence[Tensor],
    *,
    input_weight: Tensor,
    bias: Tensor | None,
    inner_bias: Tensor | None,
    chip: Chip,
) -> CellStep | None:
    """The step of this cell on a chip, or None where no kernel serves it."""
    dtype, device = input_weight.dtype, input_weight.device
    tensors = [input_weight, *factors, *(t for t in (bias, inner_bias) if t is not None)]
    alike = all(t.device == device and t.dtype == dtype and t.is_contiguous() for t in tensors)
    if structure not in STRUCTURES or not alike or chip.unavailable is not None:
        return None
    rank, diagonal, tied = matrices(structure, factors)
    nothing = 0, 0, 0  # masked or held
    units, inner = input_weight.shape[1], inner_bias is not None
    call = known(kind, units, rank, dtype, diagonal, tied, *nothing, inner)
    room = room_of(call, chip)
    if isinstance(room, str):
        return None
    return CellStep(
        call,
        factors,
        input_weight=input_weight,
        bias=bias,
        inner_bias=inner_bias,
        chip=chip,
        room=room,
    )
