"""What one LSTM scan is asked to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from passnet.ops.inputs import Inputs, put_together, take_apart
from passnet.ops.maps import GateMaps
from passnet.ops.scan import ScanCall, zero_state


@dataclass(frozen=True)
class LstmScan(ScanCall):
    """T steps, B sequences, n units; gates transform, carry, candidate and output.

    `masks` multiply the hidden state that enters each gate's matrix; `hold` and `hold_cell` are
    the fractions of the old hidden state and cell kept at each step (lengths, zoneout).
    """

    output_count: ClassVar[int] = 2
    source: Float[Tensor, "4 T B n"] | Inputs
    initial: Float[Tensor, "B n"] | None
    initial_cell: Float[Tensor, "B n"] | None
    factors: tuple[Tensor, ...]
    structure: str
    masks: Float[Tensor, "#4 B n"] | None = None
    hold: Float[Tensor, "T B #n"] | None = None
    hold_cell: Float[Tensor, "T B #n"] | None = None
    inner_bias: ClassVar[None] = None

    @property
    def start_cell(self) -> Tensor:
        """The initial cell, also where it is not given."""
        return zero_state(self) if self.initial_cell is None else self.initial_cell

    @property
    def maps(self) -> GateMaps:
        return GateMaps(self.structure, self.factors, self.masks)

    def outputs_like(self) -> list[Tensor]:
        like, shape = self.like, self.states_shape
        return [like.new_empty(shape) for _ in ("hidden", "cells")]

    def started(self) -> LstmScan:
        if self.initial is not None:
            return self
        zero = zero_state(self)
        return LstmScan(
            self.source,
            zero,
            zero,
            self.factors,
            self.structure,
            self.masks,
            self.hold,
            self.hold_cell,
        )

    def flatten(self) -> tuple[list[Tensor], list[Tensor], str]:
        source, live, given = take_apart(self.source)
        start = "zero"
        if self.initial is not None and self.initial_cell is not None:
            start = "given"
            live += (self.initial, self.initial_cell)
        live += self.factors
        if self.masks is not None:
            given["masks"] = self.masks
        if self.hold is not None and self.hold is self.hold_cell:
            given["holds"] = self.hold  # of lengths: one tensor, which is read and kept once
        else:
            holds = {"hold": self.hold, "hold_cell": self.hold_cell}
            given |= {name: hold for name, hold in holds.items() if hold is not None}
        return live, list(given.values()), " ".join((self.structure, start, source, *given))

    @classmethod
    def unflatten(cls, live: Sequence[Tensor], fixed: Sequence[Tensor], layout: str) -> LstmScan:
        structure, start, word, *given = layout.split()
        constants = dict(zip(given, fixed, strict=True))
        if "holds" in constants:
            constants["hold"] = constants["hold_cell"] = constants.pop("holds")
        source, rest = put_together(word, live, constants)
        initial, initial_cell, *factors = rest if start == "given" else (None, None, *rest)
        return cls(source, initial, initial_cell, tuple(factors), structure, **constants)
