"""Square blocks along the diagonal, alone or with a low-rank channel between them."""

from __future__ import annotations

from typing import final

from passnet.config.matrix import BlockDiagonal, BlockDiagonalPlusLowRank
from passnet.equations import STRUCTURES
from passnet.matrices.structured import StructuredMatrix


@final
class BlockDiagonalMatrix(StructuredMatrix):
    """`blocks` [gates, k, n/k, n/k], maybe with `expand` and `project` as in a low-rank matrix."""

    def __init__(
        self,
        spec: BlockDiagonal | BlockDiagonalPlusLowRank,
        size: int,
        gates: int,
        *,
        weight_norm: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(spec, size, gates, weight_norm=weight_norm)
        place = {"device": device, "dtype": dtype}
        side = size // spec.blocks
        if isinstance(spec, BlockDiagonalPlusLowRank):
            self.structure = STRUCTURES["block_diagonal_plus_low_rank"]
            self.normalised = ("blocks", "expand")
            self.normalised_to_one = ("project",)
            self.add_factor("expand", gates, size, spec.rank, **place)
            self.add_factor("project", 1 if spec.tied else gates, spec.rank, size, **place)
        else:
            self.structure = STRUCTURES["block_diagonal"]
            self.normalised = ("blocks",)
        self.add_factor("blocks", gates, spec.blocks, side, side, **place)
