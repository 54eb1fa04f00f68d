"""What one GRU scan is asked to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from jaxtyping import Float
from torch import Tensor

from passnet.equations import STRUCTURES
from passnet.equations.gru import Reset
from passnet.ops.maps import GateMaps
from passnet.ops.scan import ScanCall, states_before


@dataclass(frozen=True)
class GruScan(ScanCall):
    """T steps, B sequences, n units; gates reset, carry and candidate.

    `masks` multiply the state that enters each gate's matrix; `hold` is the fraction of the old
    state kept at each step (lengths, zoneout); `inner_bias` stands inside the candidate's
    parenthesis and exists for reset-after only.
    """

    drive: Float[Tensor, "3 T B n"]
    initial: Float[Tensor, "B n"]
    factors: tuple[Tensor, ...]
    structure: str
    reset: Reset
    masks: Float[Tensor, "#3 B n"] | None = None
    hold: Float[Tensor, "T B #n"] | None = None
    inner_bias: Float[Tensor, " n"] | None = None

    @property
    def maps(self) -> GateMaps:
        return GateMaps(self.structure, self.factors, self.masks)

    def previous(
        self, states: Float[Tensor, "T B n"], steps: slice = slice(None)
    ) -> Float[Tensor, "t B n"]:
        """The states that those steps started from."""
        return states_before(self.initial, states, steps)

    def outputs_like(self) -> list[Tensor]:
        return [self.drive.new_empty(self.drive.shape[1:])]

    def flatten(self) -> tuple[list[Tensor], list[Tensor], str]:
        live = [self.drive, self.initial, *self.factors]
        live += [] if self.inner_bias is None else [self.inner_bias]
        named = {"masks": self.masks, "hold": self.hold}
        given = {name: tensor for name, tensor in named.items() if tensor is not None}
        return live, list(given.values()), " ".join((self.structure, self.reset, *given))

    @classmethod
    def unflatten(cls, live: Sequence[Tensor], fixed: Sequence[Tensor], layout: str) -> GruScan:
        structure, reset, *given = layout.split()
        count = len(STRUCTURES[structure].factors)
        drive, initial, *rest = live
        return cls(
            drive,
            initial,
            tuple(rest[:count]),
            structure,
            cast(Reset, reset),
            inner_bias=rest[count] if len(rest) > count else None,
            **dict(zip(given, fixed, strict=True)),
        )
