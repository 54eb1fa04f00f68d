"""Sums over rows are the same in one piece and in many."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_accurate

from passnet.equations import rows
from passnet.equations.rows import piece_count, row_products


@pytest.mark.parametrize("count", [1, 2, 7, 12])
@pytest.mark.parametrize("gates", [(3, 3), (3, 1), (1, 3), (1, 1)])
@pytest.mark.parametrize("sides", [(5, 4), (2, 6)])
def test_pieces_give_the_whole(count, gates, sides, monkeypatch):
    left, right = torch.randn(gates[0], 53, sides[0]), torch.randn(gates[1], 53, sides[1])
    truth = torch.matmul(left.double().mT, right.double())
    whole = torch.matmul(left.mT, right)
    monkeypatch.setattr(rows, "piece_count", lambda *_, **__: count)
    assert_accurate(row_products(left, right), reference=whole, truth=truth)


def test_the_cpu_and_half_precision_take_one_piece():
    assert piece_count(torch.empty(1, 10_000, 8), outputs=(3, 8, 8)) == 1
    on_gpu = torch.empty(1, 10_000, 8, device="meta")
    assert piece_count(on_gpu.bfloat16(), outputs=(3, 8, 8)) == 1
    assert piece_count(on_gpu, outputs=(3, 8, 8)) > 8
    assert piece_count(on_gpu, outputs=(3, 6985, 64)) == 1
    # Three pieces would fill the chip, but two are equal and need no copy of the rows.
    assert piece_count(torch.empty(3, 4096, 8, device="meta"), outputs=(3, 3298, 51)) == 2
    assert piece_count(torch.empty(1, 100, 8, device="meta"), outputs=(3, 8, 8)) == 1
