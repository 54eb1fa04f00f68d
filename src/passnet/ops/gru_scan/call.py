"""What one GRU scan is asked to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from jaxtyping import Float
from torch import Tensor

from passnet.equations import STRUCTURES
from passnet.equations.gru import Reset
from passnet.ops.inputs import Inputs, put_together, take_apart
from passnet.ops.maps import GateMaps
from passnet.ops.scan import ScanCall, zero_state


@dataclass(frozen=True)
class GruScan(ScanCall):
    """T steps, B sequences, n units; gates reset, carry and candidate.

    `masks` multiply the state that enters each gate's matrix; `hold` is the fraction of the old
    state kept at each step (lengths, zoneout); `inner_bias` stands inside the candidate's
    parenthesis and exists for reset-after only.
    """

    output_count: ClassVar[int] = 1
    source: Float[Tensor, "3 T B n"] | Inputs
    initial: Float[Tensor, "B n"] | None
    factors: tuple[Tensor, ...]
    structure: str
    reset: Reset
    masks: Float[Tensor, "#3 B n"] | None = None
    hold: Float[Tensor, "T B #n"] | None = None
    inner_bias: Float[Tensor, " n"] | None = None
    initial_cell: ClassVar[None] = None
    hold_cell: ClassVar[None] = None

    @property
    def maps(self) -> GateMaps:
        return GateMaps(self.structure, self.factors, self.masks)

    def outputs_like(self) -> list[Tensor]:
        return [self.like.new_empty(self.states_shape)]

    def started(self) -> GruScan:
        if self.initial is not None:
            return self
        return GruScan(
            self.source,
            zero_state(self),
            self.factors,
            self.structure,
            self.reset,
            self.masks,
            self.hold,
            self.inner_bias,
        )

    def flatten(self) -> tuple[list[Tensor], list[Tensor], str]:
        source, live, given = take_apart(self.source)
        start = "zero"
        if self.initial is not None:
            start = "given"
            live.append(self.initial)
        live += self.factors
        if self.inner_bias is not None:
            live.append(self.inner_bias)
        if self.masks is not None:
            given["masks"] = self.masks
        if self.hold is not None:
            given["hold"] = self.hold
        return (
            live,
            list(given.values()),
            " ".join((self.structure, self.reset, start, source, *given)),
        )

    @classmethod
    def unflatten(cls, live: Sequence[Tensor], fixed: Sequence[Tensor], layout: str) -> GruScan:
        structure, reset, start, word, *given = layout.split()
        constants = dict(zip(given, fixed, strict=True))
        source, rest = put_together(word, live, constants)
        initial, *rest = rest if start == "given" else (None, *rest)
        inner = rest.pop() if len(rest) > len(STRUCTURES[structure].factors) else None
        reset = cast(Reset, reset)
        return cls(source, initial, tuple(rest), structure, reset, inner_bias=inner, **constants)
