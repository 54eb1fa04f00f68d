"""W = L R, and the same plus a diagonal: the two parametrisations of the paper."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from passnet.config.matrix import LowRank, LowRankPlusDiagonal
from passnet.equations import STRUCTURES
from passnet.equations.structure import expand, project
from passnet.matrices.initialisation import fill_quasi_orthogonal
from passnet.matrices.structured import StructuredMatrix


@final
class LowRankMatrix(StructuredMatrix):
    """`expand` L [gates, n, rank], `project` R [gates or 1, rank, n], maybe `diagonal` [gates, n].

    One class for both, since the diagonal is one more factor and nothing else; its two halves can
    be called by themselves, for what a Highway layer puts between them.
    """

    spec: LowRank | LowRankPlusDiagonal
    expand: nn.Parameter
    project: nn.Parameter
    diagonal: nn.Parameter | None
    normalised = ("expand",)
    normalised_to_one = ("project",)

    def __init__(
        self,
        spec: LowRank | LowRankPlusDiagonal,
        size: int,
        gates: int,
        *,
        weight_norm: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(spec, size, gates, weight_norm=weight_norm)
        place = {"device": device, "dtype": dtype}
        self.add_factor("expand", gates, size, spec.rank, **place)
        self.add_factor("project", 1 if spec.tied else gates, spec.rank, size, **place)
        if isinstance(spec, LowRankPlusDiagonal):
            self.structure = STRUCTURES["low_rank_plus_diagonal"]
            self.add_factor("diagonal", gates, size, **place)
        else:
            self.structure = STRUCTURES["low_rank"]
            self.diagonal = None

    def start(
        self, init: str, *, keep: float = 1.0, generator: torch.Generator | None = None
    ) -> None:
        if init != "quasi-orthogonal":
            super().start(init, keep=keep, generator=generator)
            return
        factors = self.expand, self.project, self.diagonal
        fill_quasi_orthogonal(*factors, keep=keep, generator=generator)
        self.reset_scales()

    def projected(self, x: Float[Tensor, "G N n"]) -> Float[Tensor, "G N d"]:
        """R x, the first half, for rows of each gate or, with G = 1, rows that all gates read."""
        right = self.factor("project")
        if x.shape[0] == 1 < right.shape[0]:
            # One product with the matrices of all gates, one below the other.
            z = torch.matmul(x.squeeze(0), right.flatten(0, 1).mT)
            return z.unflatten(-1, right.shape[:2]).transpose(0, 1)
        return project(x, right)

    def expanded(
        self, z: Float[Tensor, "gates N d"], x: Float[Tensor, "gates N n"]
    ) -> Float[Tensor, "gates N n"]:
        """L z + D x, the second half, for a z that need not be R x any more."""
        out = expand(z, self.factor("expand"))
        if self.diagonal is None:
            return out
        return torch.addcmul(out, x, self.factor("diagonal").unsqueeze(1))
