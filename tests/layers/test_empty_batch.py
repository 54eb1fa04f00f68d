"""What torch.nn does with nothing: an empty batch, and everything dropped between layers."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_accurate
from layer_twins import doubled
from torch import nn

import passnet

PAIRS = [(passnet.GRU, nn.GRU), (passnet.LSTM, nn.LSTM)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("backend", ["auto", "eager", "reference"])
@pytest.mark.parametrize("matrix", [passnet.Dense(), passnet.LowRankPlusDiagonal(2)], ids=repr)
def test_an_empty_batch(ours, theirs, backend, matrix):
    x = torch.randn(4, 0, 3, requires_grad=True)
    output, state = ours(3, 5, 2, bidirectional=True, matrix=matrix, backend=backend)(x)
    expected, expected_state = theirs(3, 5, 2, bidirectional=True)(x)
    assert output.shape == expected.shape
    for got, wanted in zip(_tensors(state), _tensors(expected_state), strict=True):
        assert got.shape == wanted.shape
    output.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_everything_dropped_between_layers(ours, theirs):
    module = theirs(3, 5, 2, dropout=1.0)
    layer = ours.from_torch(module)
    x = torch.randn(4, 2, 3)
    truth = doubled(module)(x.double())[0]
    assert_accurate(layer(x)[0], reference=module(x)[0], truth=truth)


def _tensors(state):
    return state if isinstance(state, tuple) else (state,)


def test_an_empty_batch_of_complex_units():
    output, state = passnet.UnitaryRNN(5, 7)(torch.randn(4, 0, 5))
    assert output.shape == (4, 0, 14) and state.shape == (0, 7) and state.is_complex()
