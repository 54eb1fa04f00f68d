"""Sums over very many rows, cut into pieces where one long sum would idle most of a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

_TILE = 64
_WANTED_TILES = 512
_SHORTEST_PIECE = 128


def row_products(left: Tensor, right: Tensor) -> Tensor:
    """Sum over rows of left right^T: `[G or 1, N, a]`, `[G or 1, N, b]` -> `[G, a, b]`."""
    rows = left.shape[1]
    pieces = piece_count(left, outputs=(max(left.shape[0], right.shape[0]), *_sides(left, right)))
    if pieces == 1:
        return torch.matmul(left.mT, right)
    whole = rows - rows % pieces
    shape = (pieces, whole // pieces)
    cut = (part[:, :whole].unflatten(1, shape) for part in (left, right))
    product = torch.matmul(next(cut).mT, next(cut)).sum(1)
    if whole < rows:
        product = product + torch.matmul(left[:, whole:].mT, right[:, whole:])
    return product


def piece_count(rows: Tensor, *, outputs: tuple[int, int, int]) -> int:
    """Into how many pieces to cut the rows of `[G, N, k]` for products of that shape.

    A GPU computes a product tile by tile; with few tiles, only more pieces give it more to do.
    Half precision is left whole: rounding each piece would cost accuracy.
    """
    if rows.device.type == "cpu" or rows.dtype not in (torch.float32, torch.float64):
        return 1
    gates, height, width = outputs
    tiles = gates * -(-height // _TILE) * -(-width // _TILE)
    return max(1, min(rows.shape[1] // _SHORTEST_PIECE, _WANTED_TILES // tiles))


def _sides(left: Tensor, right: Tensor) -> tuple[int, int]:
    return left.shape[-1], right.shape[-1]
