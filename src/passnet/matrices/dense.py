"""An unconstrained n x n matrix for each gate."""

from __future__ import annotations

from typing import final

from torch import nn

from passnet.config.matrix import Dense
from passnet.equations import STRUCTURES
from passnet.matrices.structured import StructuredMatrix


@final
class DenseMatrix(StructuredMatrix):
    """`weight` [gates, n, n]."""

    weight: nn.Parameter
    structure = STRUCTURES["dense"]
    normalised = ("weight",)

    def __init__(
        self, spec: Dense, size: int, gates: int, *, weight_norm=False, device=None, dtype=None
    ) -> None:
        super().__init__(spec, size, gates, weight_norm=weight_norm)
        self.add_factor("weight", gates, size, size, device=device, dtype=dtype)
