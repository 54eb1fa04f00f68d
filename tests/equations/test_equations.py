"""The paper's equations as functions, against hand-made cases and the scalar oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accuracy import assert_accurate
from oracle import urnn as oracle
from plain_loops import unitary_matrix

from passnet.equations import (
    UnitaryFactors,
    highway_layer,
    hold_step,
    modulus_relu,
    passthrough_step,
    unitary_map,
)


def test_passthrough_adds_what_is_let_in_to_what_is_kept():
    state, candidate = torch.tensor([2.0, -3.0]), torch.tensor([5.0, 7.0])
    transform, carry = torch.tensor([0.5, 0.25]), torch.tensor([1.0, 2.0])
    got = passthrough_step(state, candidate, transform=transform, carry=carry)
    assert torch.equal(got, torch.tensor([4.5, -4.25]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_holding_is_exact_at_both_ends(dtype):
    old, new = torch.randn(2, 500).to(dtype)
    assert hold_step(old, new, None) is new
    assert torch.equal(hold_step(old, new, torch.ones((), dtype=dtype)), old)
    assert torch.equal(hold_step(old, new, torch.zeros((), dtype=dtype)), new)


def test_highway_interpolates_between_candidate_and_state():
    state = torch.tensor([4.0, 4.0, 4.0])
    before = torch.tensor([[8.0, 8.0, -8.0], [0.0, -1e4, 1e4]])
    got = highway_layer(state, before, activation=torch.relu)
    assert torch.equal(got, torch.tensor([6.0, 4.0, 0.0]))


def unitary(n: int, dtype: torch.dtype) -> UnitaryFactors:
    generator = torch.Generator().manual_seed(n)
    angles = torch.rand(3, n, generator=generator).mul(6).to(dtype)
    parts = torch.randn(2, n, 2, generator=generator).to(dtype)
    permutation = torch.randperm(n, generator=generator)
    return UnitaryFactors(angles, torch.view_as_complex(parts), permutation)


def written_out(n: int, dtype: torch.dtype) -> torch.Tensor:
    kind = torch.complex128 if dtype == torch.float64 else torch.complex64
    return unitary_map(torch.eye(n, dtype=kind), unitary(n, dtype)).mT


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_unitary_matrix_is_the_oracles(n):
    angles, reflections, permutation = unitary(n, torch.float64)
    truth = oracle.unitary_matrix(angles.numpy(), reflections.numpy(), permutation.numpy())
    explicit = unitary_matrix(angles, reflections, permutation)
    got = written_out(n, torch.float64)
    assert_accurate(got, reference=explicit, truth=torch.from_numpy(truth))


@pytest.mark.parametrize("n", [5, 8, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_unitary_matrix_is_unitary(n, dtype):
    """To the precision of a unitary matrix that a library's QR gives."""
    w = written_out(n, dtype)
    q, _ = torch.linalg.qr(torch.randn(n, n, dtype=w.dtype))
    eye = torch.eye(n, dtype=torch.complex128)
    assert_accurate(w @ w.mH, reference=q @ q.mH, truth=eye)


def test_modulus_relu():
    values = [3 + 4j, 3 + 4j, 0j, -1 + 0j, 1e-3j]
    biases = [-2.5, -6.0, 1.0, 0.5, -1e-4]
    truth = np.array([oracle.modrelu(v, b) for v, b in zip(values, biases, strict=True)])
    state = torch.tensor(values, dtype=torch.complex128)
    bias = torch.tensor(biases, dtype=torch.float64)
    polar = torch.polar((state.abs() + bias).clamp_min(0), state.angle())
    reference = torch.where(state == 0, 0, polar)
    got = modulus_relu(state, bias)
    assert_accurate(got, reference=reference, truth=torch.from_numpy(truth))
    assert got[2] == 0 and got[1] == 0


def test_modulus_relu_has_a_finite_gradient_at_zero():
    state = torch.zeros(3, dtype=torch.complex128, requires_grad=True)
    bias = torch.full((3,), 0.5, dtype=torch.float64, requires_grad=True)
    modulus_relu(state, bias).abs().sum().backward()
    assert torch.isfinite(torch.view_as_real(state.grad)).all()
    assert torch.isfinite(bias.grad).all()
