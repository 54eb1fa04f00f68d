"""What one scan call asks of a kernel, apart from how many steps and sequences it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Literal

import torch
from torch import Tensor

from passnet.ops.scan import ScanCall

Cell = Literal["gru_after", "gru_before", "lstm"]
ELEMENTS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
CELLS: dict[Cell, int] = {"gru_after": 0, "gru_before": 1, "lstm": 2}
STRUCTURES = ("dense", "low_rank", "low_rank_plus_diagonal")


@dataclass(frozen=True)
class Call:
    """The compile-time side of a scan: everything but T, B and the numbers themselves."""

    cell: Cell
    units: int
    rank: int | None  # None: dense
    dtype: torch.dtype
    diagonal: bool = False
    tied: bool = False
    masks: int = 0  # 0 none, 1 shared by the gates, 2 one per gate
    hold: int = 0  # 0 none, 1 per sequence, 2 per unit
    hold_cell: int = 0
    inner_bias: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Looked up at every launch: ten fields would be hashed each time.
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    @cached_property
    def gates(self) -> int:
        return 4 if self.cell == "lstm" else 3

    @cached_property
    def merged(self) -> bool:
        """Whether all gates read one projection."""
        return self.tied and self.masks != 2

    @cached_property
    def slots(self) -> int:
        """How many d-wide summaries of the state a step has."""
        if not self.merged:
            return self.gates
        return 2 if self.cell == "gru_before" else 1

    @cached_property
    def rests(self) -> bool:
        """Whether a sequence may rest: its whole state is held, and nothing has a gradient."""
        return self.hold == 1 and (self.cell != "lstm" or self.hold_cell == 1)

    def constants(self) -> dict[str, int]:
        """The macros every kernel source reads."""
        return {
            "IO_TYPE": ELEMENTS[self.dtype],
            "CELL": CELLS[self.cell],
            "N": self.units,
            "D": self.rank or 0,
            "DIAG": int(self.diagonal),
            "TIED": int(self.tied),
            "MASKS": self.masks,
            "HOLD": self.hold,
            "HOLD_CELL": self.hold_cell,
            "INNER": int(self.inner_bias),
            "RESTS": int(self.rests),
        }


def facts(call: ScanCall, cell: Cell) -> tuple:
    """The fields of the `Call` that describes a scan."""
    # Kernels are compiled for units and ranks, so a tracer may not leave these open.
    units = int(call.factors[0].shape[1])
    masks, hold, hold_cell = call.masks, call.hold, call.hold_cell
    rank, diagonal, tied = matrices(call.structure, call.factors)
    return (
        cell,
        units,
        rank,
        call.dtype,
        diagonal,
        tied,
        0 if masks is None else 1 if masks.shape[0] == 1 else 2,
        0 if hold is None else _held(hold, units),
        0 if hold_cell is None else _held(hold_cell, units),
        call.inner_bias is not None,
    )


def matrices(structure: str, factors: Sequence[Tensor]) -> tuple[int | None, bool, bool]:
    """The rank (None: dense), whether there is a diagonal, whether the gates share one R."""
    if structure == "dense":
        return None, False, False
    tied = bool(factors[1].shape[0] == 1)
    return int(factors[0].shape[-1]), structure == "low_rank_plus_diagonal", tied


def _held(hold: Tensor, units: int) -> int:
    return 1 if hold.shape[-1] == 1 < units else 2


@cache
def known(*facts) -> Call:
    """The one `Call` with these fields: what is looked up by it is found without comparing."""
    return Call(*facts)


def describe(call: ScanCall, cell: Cell) -> Call:
    """The compile-time side of a scan."""
    return known(*facts(call, cell))


def refuses_anywhere(call: Call) -> str | None:
    """Why no CUDA kernel takes this call, or None."""
    if call.dtype not in ELEMENTS:
        given = str(call.dtype).removeprefix("torch.")
        return f"the CUDA scan computes float32, bfloat16 and float16, not {given}"
    if call.inner_bias and call.cell != "gru_after":
        return "inner_bias belongs to the GRU that resets after its matrix"
    return None


def refuses_device(device: torch.device, structure: str) -> str | None:
    """Why these tensors are not for the CUDA scan at all, or None."""
    if device.type != "cuda":
        return f"the CUDA scan runs on a GPU and this call is on {device.type}"
    if structure not in (*STRUCTURES, "unitary"):
        return f"the CUDA scan has no {structure.replace('_', '-')} matrices"
    return None
