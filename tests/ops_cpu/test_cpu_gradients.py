"""The compiled gradients of low-rank factors against PyTorch's products."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from accuracy import assert_accurate

from passnet.equations import STRUCTURES
from passnet.ops.cpu import Library, installed
from passnet.ops.cpu.gradients import low_rank_gradients

if isinstance(installed(), str):
    pytest.skip(installed(), allow_module_level=True)


@pytest.mark.parametrize("structure", ["low_rank", "low_rank_plus_diagonal"])
@pytest.mark.parametrize(("rows", "units", "rank"), [(1, 90, 9), (300, 131, 24), (257, 65, 1)])
def test_every_factor(structure: str, rows: int, units: int, rank: int) -> None:
    for gates, shared, tied in product((1, 2, 4), (True, False), (True, False)):
        inputs = torch.randn(1 if shared else gates, rows, units)
        grads = torch.randn(gates, rows, units)
        factors = [torch.randn(gates, units, rank), torch.randn(1 if tied else gates, rank, units)]
        if structure == "low_rank_plus_diagonal":
            factors.append(torch.randn(gates, units))
        plain = STRUCTURES[structure].gradients
        truth = plain(inputs.double(), grads.double(), *(f.double() for f in factors))
        reference = plain(inputs, grads, *factors)
        library = installed()
        assert isinstance(library, Library)
        for name in library.supported:
            got = low_rank_gradients(structure, inputs, grads, factors, library=library.using(name))
            assert got is not None
            for value, near, true in zip(got, reference, truth, strict=True):
                assert_accurate(value, reference=near, truth=true, name=name)


def test_others_are_left_to_pytorch() -> None:
    ones = torch.ones(1, 2, 4)
    assert low_rank_gradients("dense", ones, ones, [torch.ones(1, 4, 4)]) is None
    half = [t.bfloat16() for t in (ones, ones, torch.ones(1, 4, 2), torch.ones(1, 2, 4))]
    assert low_rank_gradients("low_rank", half[0], half[1], half[2:]) is None
