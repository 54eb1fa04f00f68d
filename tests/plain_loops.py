"""Textbook loops in plain PyTorch, any dtype, dense matrices: nothing here comes from passnet.

They give the same-dtype reference of the accuracy rule and, in double precision, the truth for
gradients; the scalar oracle judges them in turn.
"""

from __future__ import annotations

import torch
from torch import Tensor


def dense_matrices(structure: str, factors: dict[str, Tensor], gates: int) -> Tensor:
    """[gates, n, n] written out from factors with a leading axis of gates, or of 1 when shared."""

    def low_rank() -> Tensor:
        left, right = factors["expand"], factors["project"]
        return torch.stack([left[g] @ right[g % right.shape[0]] for g in range(gates)])

    def blocks() -> Tensor:
        return torch.stack([torch.block_diag(*factors["blocks"][g]) for g in range(gates)])

    if structure == "dense":
        return factors["weight"]
    if structure == "block_diagonal":
        return blocks()
    if structure == "block_diagonal_plus_low_rank":
        return blocks() + low_rank()
    return low_rank() + (torch.diag_embed(factors["diagonal"]) if "diagonal" in factors else 0)


def drive_of(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[gates, T, B, n] from inputs [T, B, m], weight [gates, n, m] and bias [gates, n]."""
    parts = [x @ w.mT for w in weight]
    return torch.stack(parts if bias is None else [p + b for p, b in zip(parts, bias, strict=True)])


def gru_loop(drive, h0, w, *, reset, inner_bias=None, masks=None, hold=None) -> Tensor:
    """States [T, B, n]; masks [3 or 1, B, n], hold [T, B, n or 1]."""

    def through(gate: int, value: Tensor) -> Tensor:
        if masks is not None:
            value = value * masks[gate % len(masks)]
        return value @ w[gate].mT

    h, states = h0, []
    for t in range(drive.shape[1]):
        r = torch.sigmoid(drive[0, t] + through(0, h))
        u = torch.sigmoid(drive[1, t] + through(1, h))
        if reset == "before":
            q = through(2, r * h)
        else:
            q = r * (through(2, h) if inner_bias is None else through(2, h) + inner_bias)
        new = (1 - u) * torch.tanh(drive[2, t] + q) + u * h
        h = new if hold is None else hold[t] * h + (1 - hold[t]) * new
        states.append(h)
    return torch.stack(states)


def lstm_loop(drive, h0, c0, w, *, masks=None, hold=None, hold_cell=None) -> tuple[Tensor, Tensor]:
    """Hidden states and cells, [T, B, n] each; the hidden state reads the cell before its hold."""
    h, c, hidden, cells = h0, c0, [], []
    for t in range(drive.shape[1]):
        entering = [h if masks is None else h * masks[g % len(masks)] for g in range(4)]
        i, f, g, o = (drive[k, t] + entering[k] @ w[k].mT for k in range(4))
        new_c = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f) * c
        new_h = torch.sigmoid(o) * torch.tanh(new_c)
        h = new_h if hold is None else hold[t] * h + (1 - hold[t]) * new_h
        c = new_c if hold_cell is None else hold_cell[t] * c + (1 - hold_cell[t]) * new_c
        hidden.append(h)
        cells.append(c)
    return torch.stack(hidden), torch.stack(cells)


def unitary_matrix(angles: Tensor, reflections: Tensor, permutation: Tensor) -> Tensor:
    """D3 R2 F^-1 D2 P R1 F D1 as a product of explicit matrices, complex [n, n]."""
    n = len(permutation)
    eye = torch.eye(n, dtype=reflections.dtype)
    d1, d2, d3 = (torch.diag(torch.polar(torch.ones_like(a), a)) for a in angles)
    r1, r2 = (eye - 2 * torch.outer(v, v.conj()) / v.abs().square().sum() for v in reflections)
    turns = torch.outer(torch.arange(n), torch.arange(n)).to(angles.dtype) / n
    fourier = torch.polar(torch.ones_like(turns), -2 * torch.pi * turns) / n**0.5
    return d3 @ r2 @ fourier.mH @ d2 @ eye[permutation] @ r1 @ fourier @ d1
