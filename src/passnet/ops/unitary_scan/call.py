"""What one unitary scan is asked to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor

from passnet.ops.inputs import Inputs, put_together, take_apart
from passnet.ops.scan import ScanCall


@dataclass(frozen=True)
class UnitaryScan(ScanCall):
    """T steps, B sequences, n complex units as pairs of real numbers.

    The drive has two planes and a state two halves: real parts, then imaginary parts. `factors`
    are the angles [3, n] and the reflections [2, n, 2]; where `hold` is true a state is kept.
    """

    output_count: ClassVar[int] = 1
    source: Float[Tensor, "2 T B n"] | Inputs
    initial: Float[Tensor, "B 2n"]
    factors: tuple[Tensor, Tensor]
    permutation: Int[Tensor, " n"]
    modulus_bias: Float[Tensor, " n"]
    hold: Bool[Tensor, "T B 1"] | None = None
    structure: ClassVar[str] = "unitary"
    initial_cell: ClassVar[None] = None
    masks: ClassVar[None] = None
    hold_cell: ClassVar[None] = None
    inner_bias: ClassVar[None] = None

    def outputs_like(self) -> list[Tensor]:
        _, steps, batch, units = self.shape
        return [self.initial.new_empty((steps, batch, 2 * units))]

    def flatten(self) -> tuple[list[Tensor], list[Tensor], str]:
        source, live, given = take_apart(self.source)
        live += [self.initial, *self.factors, self.modulus_bias]
        given["permutation"] = self.permutation
        given |= {} if self.hold is None else {"hold": self.hold}
        return live, list(given.values()), " ".join((source, *given))

    @classmethod
    def unflatten(cls, live: Sequence[Tensor], fixed: Sequence[Tensor], layout: str) -> UnitaryScan:
        word, *given = layout.split()
        constants = dict(zip(given, fixed, strict=True))
        source, (initial, angles, reflections, bias) = put_together(word, live, constants)
        return cls(source, initial, (angles, reflections), modulus_bias=bias, **constants)
