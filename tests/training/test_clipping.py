"""Clipping and the recovery from broken gradients, against the scalar transcription."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import optimisers as oracle
from torch import nn

from passnet.config import ClipComponents, ClipNorm
from passnet.training.clipping import gradient_norm, treat_gradients_

SHAPES = ((3, 2), (4,))


def owners(scale=1.0):
    found = [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in SHAPES]
    for parameter in found:
        parameter.grad = scale * torch.randn(parameter.shape, dtype=torch.float64)
    return found


def gradients(parameters):
    return [p.grad.numpy().copy() for p in parameters]


@given(st.floats(1e-3, 1e3), st.floats(0.1, 10.0))
def test_norm(scale, limit):
    parameters = owners(scale)
    expected = oracle.clip_norm(gradients(parameters), limit)
    norm = oracle.gradient_norm(gradients(parameters))
    treated = treat_gradients_(parameters, ClipNorm(limit), nan_policy="stop")
    assert treated.norm.item() == pytest.approx(norm, rel=1e-13)
    assert not treated.broken
    for got, array in zip(gradients(parameters), expected, strict=True):
        np.testing.assert_allclose(got, array, rtol=1e-12)


@given(st.floats(1e-3, 1e3), st.floats(0.1, 10.0))
def test_components(scale, limit):
    parameters = owners(scale)
    expected = oracle.clip_components(gradients(parameters), limit)
    treat_gradients_(parameters, ClipComponents(limit), nan_policy="stop")
    for got, array in zip(gradients(parameters), expected, strict=True):
        np.testing.assert_array_equal(got, array)


def test_without_clipping_only_the_norm_is_taken():
    parameters = owners(100.0)
    before = gradients(parameters)
    treat_gradients_(parameters, None, nan_policy="stop")
    for got, array in zip(gradients(parameters), before, strict=True):
        np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize(
    ("bad", "clipping"),
    [
        *((bad, clip) for bad in (math.nan, math.inf, -math.inf) for clip in (ClipNorm(1.0), None)),
        (math.nan, ClipComponents(1.0)),
    ],
)
@pytest.mark.parametrize("factor", [0.1, 0.01])
def test_one_bad_component_makes_all_gradients_a_shrink_step(bad, clipping, factor):
    parameters = owners()
    parameters[0].data *= 100  # the replacement is longer than the limit and must not be clipped
    parameters[1].grad[2] = bad
    arrays = [p.detach().numpy() for p in parameters]
    expected = oracle.clip_norm_or_recover(gradients(parameters), arrays, factor=factor)
    treated = treat_gradients_(parameters, clipping, nan_policy=factor)
    assert treated.broken
    for got, array in zip(gradients(parameters), expected, strict=True):
        np.testing.assert_allclose(got, array, rtol=1e-13)


def test_a_good_gradient_is_only_clipped_under_a_recovery_policy():
    parameters = owners(10.0)
    arrays = [p.detach().numpy() for p in parameters]
    expected = oracle.clip_norm_or_recover(gradients(parameters), arrays)
    assert not treat_gradients_(parameters, ClipNorm(1.0), nan_policy=0.1).broken
    for got, array in zip(gradients(parameters), expected, strict=True):
        np.testing.assert_allclose(got, array, rtol=1e-12)


def test_a_zero_gradient_stays_zero():
    parameters = owners(0.0)
    treat_gradients_(parameters, ClipNorm(1.0), nan_policy=0.1)
    assert all((gradient == 0).all() for gradient in gradients(parameters))


def test_parameters_without_a_gradient_are_left_alone():
    with_gradient, without = owners()
    without.grad = None
    treat_gradients_([with_gradient, without], ClipNorm(1.0), nan_policy=0.1)
    assert without.grad is None
    assert gradient_norm([]).item() == 0


def test_an_overflow_is_clipped_by_component_but_broken_by_norm():
    for clipping, broken in ((ClipComponents(1.0), False), (ClipNorm(1.0), True)):
        parameter = torch.zeros(3, requires_grad=True)
        parameter.grad = torch.tensor([float("inf"), -1e30, 0.5])
        treated = treat_gradients_([parameter], clipping, nan_policy="stop")
        assert bool(treated.broken) is broken
        if not broken:
            assert parameter.grad.tolist() == [1.0, -1.0, 0.5]


def test_nan_is_broken_under_every_clipping():
    for clipping in (None, ClipComponents(1.0), ClipNorm(1.0)):
        parameter = torch.ones(2, requires_grad=True)
        parameter.grad = torch.tensor([float("nan"), 1.0])
        assert bool(treat_gradients_([parameter], clipping, nan_policy=0.5).broken)
        assert parameter.grad.tolist() == [0.5, 0.5]
