"""The unitary evolution RNN of Arjovsky, Shah and Bengio, which the paper compares against."""

from __future__ import annotations

import cmath
import math

import numpy as np


def phases(theta, vector):
    """D z, with D the diagonal matrix of exp(i theta)."""
    return [cmath.exp(1j * theta[i]) * vector[i] for i in range(len(vector))]


def reflect(axis, vector):
    """R z = z - 2 v (v* z) / |v|^2, the complex reflection along v."""
    inner = 0j
    square = 0.0
    for j in range(len(vector)):
        inner += complex(axis[j]).conjugate() * vector[j]
        square += abs(axis[j]) ** 2
    return [vector[i] - 2.0 * axis[i] * inner / square for i in range(len(vector))]


def permute(permutation, vector):
    """Pi z, whose component i is component permutation[i] of z."""
    return [vector[permutation[i]] for i in range(len(vector))]


def fourier(vector):
    """F z, component j being the sum over k of exp(-2 pi i j k / n) z_k, over sqrt(n)."""
    size = len(vector)
    result = []
    for j in range(size):
        total = 0j
        for k in range(size):
            total += cmath.exp(-2j * math.pi * ((j * k) % size) / size) * vector[k]
        result.append(total / math.sqrt(size))
    return result


def inverse_fourier(vector):
    """F^-1 z, component j being the sum over k of exp(+2 pi i j k / n) z_k, over sqrt(n)."""
    size = len(vector)
    result = []
    for j in range(size):
        total = 0j
        for k in range(size):
            total += cmath.exp(2j * math.pi * ((j * k) % size) / size) * vector[k]
        result.append(total / math.sqrt(size))
    return result


def unitary(thetas, reflections, permutation, vector):
    """W z with W = D3 R2 F^-1 D2 Pi R1 F D1, the rightmost factor first."""
    vector = phases(thetas[0], vector)
    vector = fourier(vector)
    vector = reflect(reflections[0], vector)
    vector = permute(permutation, vector)
    vector = phases(thetas[1], vector)
    vector = inverse_fourier(vector)
    vector = reflect(reflections[1], vector)
    return phases(thetas[2], vector)


def unitary_matrix(thetas, reflections, permutation):
    """W as a dense complex matrix [n][n]; column j is W applied to unit vector j."""
    size = len(permutation)
    dense = np.zeros((size, size), dtype=np.complex128)
    for j in range(size):
        basis = [0j] * size
        basis[j] = 1.0 + 0j
        column = unitary(thetas, reflections, permutation, basis)
        for i in range(size):
            dense[i][j] = column[i]
    return dense


def modrelu(value, bias):
    """The modulus moved by bias and rectified, the phase kept; zero for a zero value."""
    modulus = abs(value)
    if modulus == 0.0 or modulus + bias <= 0.0:
        return 0j
    return (modulus + bias) * value / modulus


def urnn(
    inputs,
    initial_state,
    input_real,
    input_imag,
    thetas,
    reflections,
    permutation,
    modrelu_bias,
):
    """Complex states [T][B][n] of h(t) = modReLU(W h(t-1) + V u(t)).

    inputs [T][B][m] are real, initial_state [B][n] complex, V = input_real + i input_imag [n][m];
    thetas holds the angles of D1, D2, D3 and reflections the vectors of R1, R2, in that order. The
    bias is real and belongs to modReLU.
    """
    inputs = np.asarray(inputs, dtype=np.float64)
    state = np.array(initial_state, dtype=np.complex128)
    steps, batch, _ = inputs.shape
    units = state.shape[1]
    states = np.zeros((steps, batch, units), dtype=np.complex128)
    for t in range(steps):
        for b in range(batch):
            old = [complex(state[b][j]) for j in range(units)]
            moved = unitary(thetas, reflections, permutation, old)
            for i in range(units):
                driven = complex(
                    np.dot(input_real[i], inputs[t][b]), np.dot(input_imag[i], inputs[t][b])
                )
                states[t][b][i] = modrelu(moved[i] + driven, modrelu_bias[i])
        state = states[t]
    return states
