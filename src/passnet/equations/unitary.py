"""The unitary evolution RNN of Arjovsky, Shah and Bengio (2015), which the paper compares with.

W = D3 R2 F^-1 D2 P R1 F D1: diagonals of unit complex numbers, complex reflections, the unitary
Fourier transform and a fixed permutation; every part is unitary, so W is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor


class UnitaryFactors(NamedTuple):
    """What determines W: three rows of angles, two reflection vectors, one permutation."""

    angles: Float[Tensor, "3 n"]
    reflections: Complex[Tensor, "2 n"]
    permutation: Int[Tensor, " n"]


def rotate(state: Complex[Tensor, "... n"], angles: Float[Tensor, " n"]) -> Tensor:
    """D x with D = diag(exp(i angles))."""
    return state * torch.polar(torch.ones_like(angles), angles)


def reflect(state: Complex[Tensor, "... n"], vector: Complex[Tensor, " n"]) -> Tensor:
    """R x with R = I - 2 v v* / |v|^2."""
    along = (state * vector.conj()).sum(-1, keepdim=True)
    return state - (2 / vector.abs().square().sum()) * along * vector


def unitary_map(state: Complex[Tensor, "... n"], factors: UnitaryFactors) -> Tensor:
    """W x, in n log n operations."""
    angles, reflections, permutation = factors
    state = torch.fft.fft(rotate(state, angles[0]), norm="ortho")
    state = reflect(state, reflections[0])[..., permutation]
    state = torch.fft.ifft(rotate(state, angles[1]), norm="ortho")
    return rotate(reflect(state, reflections[1]), angles[2])


def modulus_relu(state: Complex[Tensor, "... n"], bias: Float[Tensor, " n"]) -> Tensor:
    """ReLU on the modulus, the phase kept; a state of exactly zero stays zero."""
    modulus = state.abs()
    scale = torch.relu(modulus + bias) / torch.where(modulus > 0, modulus, 1)
    return state * scale


def urnn_step(
    state: Complex[Tensor, "... n"],
    drive: Complex[Tensor, "... n"],
    factors: UnitaryFactors,
    *,
    bias: Float[Tensor, " n"],
) -> Tensor:
    """The next state: rotate the old one, add the input, shrink small components to zero."""
    return modulus_relu(unitary_map(state, factors) + drive, bias)
