"""The structured matrices nearest to given ones, where some directions may count more than others.

Near means a small sum of squares of (W - W') K, with a factor K K^T = C of the second moments of
the vectors that enter W: then it is the expected error of W x, not that of W. Everything here is
multiplied by K from the right: the target is W K, blocks or diagonals D are D K, and L R is L V^T
with orthonormal columns in V, since whatever R K is, L can make up for.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.config.matrix import (
    BlockDiagonal,
    BlockDiagonalPlusLowRank,
    LowRankPlusDiagonal,
    MatrixSpec,
)

MOST_ROUNDS = 1000
ENOUGH = 1e-6
"""Rounds end when one lowers the error by less than this share of it."""


def fit(
    weight: Float[Tensor, "G n n"],
    spec: MatrixSpec,
    moments: Float[Tensor, "G n n"] | Float[Tensor, "1 n n"],
) -> dict[str, Tensor]:
    """The factors of `spec` by name, for all gates.

    A low-rank part alone is the truncated singular value decomposition, exactly. Beside a diagonal
    or blocks the two parts take turns, each improved for the other, so that the error only falls;
    where it ends depends on who begins, so both do and the better end counts.
    """
    rank: int = getattr(spec, "rank", 0)
    tied: bool = getattr(spec, "tied", False)
    if tied:
        moments = moments.mean(0, keepdim=True)
    root = torch.linalg.cholesky(moments)
    target = weight @ root
    side = _side(spec, weight.shape[-1])
    if side == 0:
        left, directions = _start(target, rank, tied=tied)
        return _low_rank(left, directions, root, tied=tied)
    local = _LocalPart(target, root, side=side)
    if rank == 0:
        return {"blocks": local.nearest()}
    begins = target - local.weighted(local.nearest()), target
    ends = [_in_turns(target, local, _start(rest, rank, tied=tied), tied=tied) for rest in begins]
    _, own, left, directions = min(ends, key=lambda end: end[0])
    found = _low_rank(left, directions, root, tied=tied)
    if isinstance(spec, LowRankPlusDiagonal):
        return found | {"diagonal": own.flatten(1)}
    return found | {"blocks": own}


def _in_turns(
    target: Tensor, local: _LocalPart, start: tuple[Tensor, Tensor], *, tied: bool
) -> tuple[float, Tensor, Tensor, Tensor]:
    """(error, D, L, V), from L and V on."""
    left, directions = start
    own, error = local.nearest(), float("inf")
    for _ in range(MOST_ROUNDS):
        own = local.nearest(left, directions)
        rest = target - local.weighted(own)
        left, directions = _turned(rest, directions, tied=tied)
        before, error = error, _error(rest, left)
        if error >= (1 - ENOUGH) * before:  # equal where both are zero
            break
    return error, own, left, directions


def _side(spec: MatrixSpec, units: int) -> int:
    """Units of a block along the diagonal, 0 where there are none."""
    if isinstance(spec, BlockDiagonal | BlockDiagonalPlusLowRank):
        return units // spec.blocks
    return 1 if isinstance(spec, LowRankPlusDiagonal) else 0


class _LocalPart:
    """Blocks `[G, k, side, side]` along the diagonal; a diagonal is made of blocks of one."""

    def __init__(self, target: Tensor, root: Tensor, *, side: int) -> None:
        self._runs = target.shape[-1] // side, side
        self._root = root
        self._rows = root.unflatten(-2, self._runs)
        self._inside = self._rows @ self._rows.mT
        self._wanted = target.unflatten(-2, self._runs) @ self._rows.mT

    def nearest(self, left: Tensor | None = None, directions: Tensor | None = None) -> Tensor:
        """The best blocks beside L V^T: each of their rows solves a least-squares problem."""
        wanted = self._wanted
        if left is not None and directions is not None:
            seen = (self._root @ directions).unflatten(-2, self._runs)
            wanted = wanted - left.unflatten(-2, self._runs) @ seen.mT
        return torch.linalg.solve(self._inside, wanted, left=False)

    def weighted(self, blocks: Tensor) -> Tensor:
        """D K, `[G, n, n]`."""
        return (blocks @ self._rows).flatten(1, 2)


def _start(rest: Tensor, rank: int, *, tied: bool) -> tuple[Tensor, Tensor]:
    """(L, V) nearest to what is left of the target."""
    tall = _tall(rest, tied=tied)
    directions = torch.linalg.eigh(tall.mT @ tall)[1][..., -rank:]
    return rest @ directions, directions


def _turned(rest: Tensor, directions: Tensor, *, tied: bool) -> tuple[Tensor, Tensor]:
    """(L, V) nearer to it: one round of power iteration from directions that were good before."""
    tall = _tall(rest, tied=tied)
    directions = torch.linalg.qr(tall.mT @ (tall @ directions))[0]
    return rest @ directions, directions


def _tall(rest: Tensor, *, tied: bool) -> Tensor:
    """Gates that share R are one matrix, below each other."""
    return rest.flatten(0, 1).unsqueeze(0) if tied else rest


def _error(rest: Tensor, left: Tensor) -> float:
    """The sum of squares that L V^T leaves of the rest."""
    return float((rest.square().sum() - left.square().sum()).clamp_min(0))


def _low_rank(left: Tensor, directions: Tensor, root: Tensor, *, tied: bool) -> dict[str, Tensor]:
    """L and R = V^T K^-1, balanced: both with the same singular values, which trains well."""
    right = torch.linalg.solve_triangular(root.mT, directions, upper=True)
    outer, upper = torch.linalg.qr(_tall(left, tied=tied))
    inner, lower = torch.linalg.qr(right)
    u, s, vh = torch.linalg.svd(upper @ lower.mT)
    scale = s.sqrt().unsqueeze(-2)
    expand = (outer @ (u * scale)).reshape(left.shape)
    return {"expand": expand, "project": (inner @ (vh.mT * scale)).mT}
