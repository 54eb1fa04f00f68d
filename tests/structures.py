"""One example of every structure, and a few awkward ones, for a state of SIZE units."""

from __future__ import annotations

import passnet

SIZE = 8

STRUCTURES = {
    "dense": passnet.Dense(),
    "low-rank": passnet.LowRank(3),
    "low-rank tied": passnet.LowRank(3, tied=True),
    "rank 1": passnet.LowRank(1),
    "diagonal": passnet.LowRankPlusDiagonal(3),
    "diagonal tied": passnet.LowRankPlusDiagonal(3, tied=True),
    "full rank": passnet.LowRankPlusDiagonal(SIZE),
    "blocks": passnet.BlockDiagonal(2),
    "one block": passnet.BlockDiagonal(1),
    "blocks of one": passnet.BlockDiagonal(SIZE),
    "blocks and rank": passnet.BlockDiagonalPlusLowRank(2, 3),
    "blocks and rank tied": passnet.BlockDiagonalPlusLowRank(4, 1, tied=True),
}

MAIN = ("dense", "low-rank", "diagonal tied", "blocks", "blocks and rank")
"""One of each kind, for tests whose grid is large."""
