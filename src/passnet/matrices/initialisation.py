"""Filling factors with starting values: one function for each kind of factor and scheme."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

NORMAL_SCALE = 0.01
UNIFORM_BOUND = 0.04
DIAGONAL_BOUND = 0.01


@torch.no_grad()
def fill_matrix(
    tensor: Tensor, init: str, *, units: int, generator: torch.Generator | None = None
) -> None:
    """Start every matrix of a stack [..., out, in]; `units` is the layer's state size n."""
    rows, columns = tensor.shape[-2:]
    if init == "uniform":
        fill_uniform(tensor, UNIFORM_BOUND, generator)
    elif init == "torch":
        fill_uniform(tensor, 1 / math.sqrt(units), generator)
    elif init == "orthogonal-normal" and rows != columns:
        tensor.copy_(NORMAL_SCALE * _normal(tensor.shape, generator))
    elif init in ("orthogonal-normal", "balanced", "quasi-orthogonal"):
        tensor.copy_(semi_orthogonal(tensor.shape, generator))
    else:
        fill_uniform(tensor, math.sqrt(6 / (rows + columns)), generator)


@torch.no_grad()
def fill_input(
    tensor: Tensor, init: str, *, units: int, generator: torch.Generator | None = None
) -> None:
    """Start the input matrices; those of a semi-orthogonal state are Glorot, not orthogonal."""
    scheme = "glorot" if init in ("balanced", "quasi-orthogonal") else init
    fill_matrix(tensor, scheme, units=units, generator=generator)


@torch.no_grad()
def fill_diagonal(
    tensor: Tensor, init: str, *, units: int, generator: torch.Generator | None = None
) -> None:
    """Start the diagonals [..., n]."""
    bounds = {"uniform": UNIFORM_BOUND, "torch": 1 / math.sqrt(units)}
    fill_uniform(tensor, bounds.get(init, DIAGONAL_BOUND), generator)


@torch.no_grad()
def fill_bias(
    tensor: Tensor, init: str, *, units: int, generator: torch.Generator | None = None
) -> None:
    """Start the biases: zero, except in the schemes that draw every parameter."""
    bounds = {"uniform": UNIFORM_BOUND, "torch": 1 / math.sqrt(units)}
    if init in bounds:
        fill_uniform(tensor, bounds[init], generator)
    else:
        tensor.zero_()


@torch.no_grad()
def fill_quasi_orthogonal(
    left: Tensor,
    right: Tensor,
    diagonal: Tensor | None,
    *,
    keep: float = 1.0,
    generator: torch.Generator | None = None,
) -> None:
    """Truncate the SVD of a random orthogonal matrix, fit the diagonal to what was cut off.

    All parts are divided by `keep`, the share of units that dropout leaves alive. A shared R
    comes from the first gate's matrix.
    """
    gates, units, rank = left.shape
    targets = semi_orthogonal((gates, units, units), generator)
    u, s, vh = torch.linalg.svd(targets)
    root = s[:, :rank].sqrt()
    lefts = u[..., :rank] * root.unsqueeze(-2)
    rights = root.unsqueeze(-1) * vh[:, :rank]
    right.copy_(rights[: right.shape[0]] / keep)
    left.copy_(lefts / keep)
    if diagonal is not None:
        rest = targets - lefts @ rights[: right.shape[0]]
        diagonal.copy_(rest.diagonal(dim1=-2, dim2=-1) / keep)


def semi_orthogonal(shape: torch.Size | tuple[int, ...], generator: torch.Generator | None):
    """Matrices with orthonormal rows or columns, whichever are fewer, uniformly distributed."""
    *stack, rows, columns = shape
    tall = max(rows, columns), min(rows, columns)
    q, r = torch.linalg.qr(_normal((*stack, *tall), generator))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return q if rows >= columns else q.mT


@torch.no_grad()
def fill_uniform(tensor: Tensor, bound: float, generator: torch.Generator | None) -> None:
    """Uniform within `bound` of zero."""
    draw = torch.empty(tensor.shape, **_drawn())
    tensor.copy_(draw.uniform_(-bound, bound, generator=generator))


def _normal(shape, generator: torch.Generator | None) -> Tensor:
    return torch.randn(tuple(shape), generator=generator, **_drawn())


def _drawn() -> dict[str, Any]:
    """What is drawn in: the usual dtype, but no half one, for which there are no decompositions.

    On the CPU whatever the default device is: a seed gives the same parameters everywhere.
    """
    dtype = torch.promote_types(torch.get_default_dtype(), torch.float32)
    return {"dtype": dtype, "device": "cpu"}
