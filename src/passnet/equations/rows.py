"""Sums over very many rows, cut into pieces where one long sum would idle most of a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

_TILE = 64
_WANTED_TILES = 512
_SHORTEST_PIECE = 128
_NARROW = 8


def row_products(left: Tensor, right: Tensor) -> Tensor:
    """Sum over rows of left right^T: `[G or 1, N, a]`, `[G or 1, N, b]` -> `[G, a, b]`."""
    gates, rows, height = left.shape
    if right.shape[0] == 1 < gates and height < right.shape[2]:
        # The narrow side of all gates side by side: the wide side is read once and never copied.
        side_by_side = left.transpose(0, 1).reshape(1, rows, gates * height)
        return row_products(side_by_side, right)[0].unflatten(0, (gates, height))
    if left.device.type == "cpu" and right.shape[2] * _NARROW < height:
        # BLAS is slow at products with few columns, and fast at their transpose.
        return torch.matmul(right.mT, left).mT
    pieces = piece_count(left, outputs=(max(gates, right.shape[0]), height, right.shape[2]))
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
    Equal pieces are views of the rows, so up to half of them are given up for equality. Half
    precision is left whole: rounding each piece would cost accuracy.
    """
    if rows.device.type == "cpu" or rows.dtype not in (torch.float32, torch.float64):
        return 1
    gates, height, width = outputs
    tiles = gates * -(-height // _TILE) * -(-width // _TILE)
    most = max(1, min(rows.shape[1] // _SHORTEST_PIECE, _WANTED_TILES // tiles))
    equal = (pieces for pieces in range(most, most // 2, -1) if rows.shape[1] % pieces == 0)
    return next(equal, most)
