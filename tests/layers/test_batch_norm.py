"""The hand-derived backward of batch normalisation."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_accurate

from passnet.cells.batch_norm import BatchNorm
from passnet.equations.batch_norm import EPSILON


def plain(x):
    deviation, mean = torch.std_mean(x, dim=-2, correction=0, keepdim=True)
    return (x - mean) / (deviation + EPSILON)


@pytest.mark.parametrize("shape", [(7, 3), (2, 5, 4), (2, 2, 3)])
def test_first_and_second_derivatives(shape):
    norm = BatchNorm(*shape[:-2], shape[-1], dtype=torch.float64)
    with torch.no_grad():
        norm.scale.uniform_(0.5, 2)
        norm.shift.normal_()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm, x)
    assert torch.autograd.gradgradcheck(norm, x)


def test_it_is_what_autograd_makes_of_the_formula():
    norm = BatchNorm(2, 4, scale=False, shift=False)
    x = torch.randn(2, 50, 4)
    weight = torch.randn(2, 50, 4)
    found = []
    for make, dtype in ((norm, torch.float32), (plain, torch.float32), (plain, torch.float64)):
        given = x.detach().to(dtype).requires_grad_()
        y = make(given)
        (grad,) = torch.autograd.grad((y * weight.to(dtype)).sum(), given)
        found.append((y.detach(), grad))
    for got, reference, truth in zip(*found, strict=True):
        assert_accurate(got, reference=reference, truth=truth)


def test_a_column_without_spread():
    norm = BatchNorm(3, scale=False, shift=False)
    x = torch.randn(6, 3)
    x[:, 1] = 2.0
    x.requires_grad_()
    (found,) = torch.autograd.grad((norm(x) * torch.randn(6, 3)).sum(), x)
    assert torch.isfinite(found).all()


def test_running_statistics_have_no_gradient():
    norm = BatchNorm(3)
    x = torch.randn(6, 3, requires_grad=True)
    norm(x).sum().backward()
    assert not norm.running_mean.requires_grad
    torch.testing.assert_close(norm.running_mean, 0.1 * x.detach().mean(0))
