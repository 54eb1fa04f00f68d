"""Dense forms of the structured matrices, and the two row-norm operations on matrices."""

from __future__ import annotations

import math

import numpy as np


def low_rank(left, right):
    """W = L R of equation 4, with left [n][d] and right [d][m]."""
    left = np.asarray(left, dtype=np.float64)
    right = np.asarray(right, dtype=np.float64)
    rows, rank = left.shape
    columns = right.shape[1]
    dense = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            total = 0.0
            for r in range(rank):
                total += left[i][r] * right[r][j]
            dense[i][j] = total
    return dense


def low_rank_plus_diagonal(left, right, diagonal):
    """W = L R + D of equation 5; diagonal [n] holds the entries of D."""
    dense = low_rank(left, right)
    for i in range(len(diagonal)):
        dense[i][i] += diagonal[i]
    return dense


def block_diagonal(blocks):
    """The square matrix with blocks [k][s][s] along its diagonal and zeros elsewhere.

    The paper has no such matrix; block number q acts on units q * s to q * s + s - 1.
    """
    blocks = np.asarray(blocks, dtype=np.float64)
    count, size, _ = blocks.shape
    dense = np.zeros((count * size, count * size))
    for q in range(count):
        for i in range(size):
            for j in range(size):
                dense[q * size + i][q * size + j] = blocks[q][i][j]
    return dense


def block_diagonal_plus_low_rank(blocks, left, right):
    """L R plus the block diagonal matrix in the place equation 5 gives to D."""
    dense = low_rank(left, right)
    diagonal = block_diagonal(blocks)
    for i in range(dense.shape[0]):
        for j in range(dense.shape[1]):
            dense[i][j] += diagonal[i][j]
    return dense


def row_norm(row):
    """The Euclidean norm of one row."""
    total = 0.0
    for value in row:
        total += value * value
    return math.sqrt(total)


def weight_norm(rows, scale=None):
    """Weight normalisation of Salimans and Kingma, w = scale * v / |v| for every row v.

    A row holds the weights into one output unit. scale [n] is None for the projection matrices,
    which have no trainable scale; their rows get norm one.
    """
    rows = np.asarray(rows, dtype=np.float64)
    normalised = np.zeros(rows.shape)
    for i in range(rows.shape[0]):
        norm = row_norm(rows[i])
        factor = 1.0 if scale is None else scale[i]
        for j in range(rows.shape[1]):
            normalised[i][j] = factor * rows[i][j] / norm
    return normalised


def clip_row_norms(matrix, maximum):
    """Every row longer than maximum shortened to that norm, the others as they were."""
    matrix = np.asarray(matrix, dtype=np.float64)
    clipped = np.zeros(matrix.shape)
    for i in range(matrix.shape[0]):
        norm = row_norm(matrix[i])
        factor = maximum / norm if norm > maximum else 1.0
        for j in range(matrix.shape[1]):
            clipped[i][j] = matrix[i][j] * factor
    return clipped
