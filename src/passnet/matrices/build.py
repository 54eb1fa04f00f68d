"""From the value a user passes as `matrix=` to the module that holds its parameters."""

from __future__ import annotations

from collections.abc import Callable

from passnet.config.matrix import (
    BlockDiagonal,
    BlockDiagonalPlusLowRank,
    Dense,
    LowRank,
    LowRankPlusDiagonal,
    MatrixSpec,
)
from passnet.matrices.block_diagonal import BlockDiagonalMatrix
from passnet.matrices.dense import DenseMatrix
from passnet.matrices.low_rank import LowRankMatrix
from passnet.matrices.structured import StructuredMatrix

MATRICES: dict[type[MatrixSpec], Callable[..., StructuredMatrix]] = {
    Dense: DenseMatrix,
    LowRank: LowRankMatrix,
    LowRankPlusDiagonal: LowRankMatrix,
    BlockDiagonal: BlockDiagonalMatrix,
    BlockDiagonalPlusLowRank: BlockDiagonalMatrix,
}


def build_matrix(
    spec: MatrixSpec,
    size: int,
    *,
    gates: int,
    weight_norm: bool = False,
    device=None,
    dtype=None,
) -> StructuredMatrix:
    """The state matrices of a layer with `size` units, parameters not yet drawn."""
    check_spec(spec, size)
    kind = MATRICES[type(spec)]
    return kind(spec, size, gates, weight_norm=weight_norm, device=device, dtype=dtype)


def check_spec(spec: MatrixSpec, size: int) -> None:
    """Raise a sentence when `spec` is no structure, or none for this size."""
    if type(spec) not in MATRICES:
        known = ", ".join(kind.__name__ for kind in MATRICES)
        hint = f" (an instance: {spec.__name__}(...))" if isinstance(spec, type) else ""
        raise TypeError(f"matrix={spec!r} is not a structure: pass one of {known}{hint}")
    spec.check(size)
