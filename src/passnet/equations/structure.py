"""Equations 4 and 5: what each structured matrix does to a vector, from its raw factors.

Every factor has a leading gate axis of G matrices, or of 1 where the gates share it. Vectors are
`[G or 1, N, n]`: N rows for each gate, or N rows that all gates read. No function here forms a
low-rank W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from passnet.equations.rows import row_products


@dataclass(frozen=True)
class Structure:
    """One kind of matrix.

    `apply(x, *factors)` is W x; `transpose(y, *factors)` is W^T y; `transpose_sum` is that summed
    over the gates, `[N, n]`, which is cheaper than each by itself; `gradients(x, grad, *factors)`
    is the gradient of each factor when `grad` is that of W x.
    """

    name: str
    factors: tuple[str, ...]
    apply: Callable[..., Tensor]
    transpose: Callable[..., Tensor]
    transpose_sum: Callable[..., Tensor]
    gradients: Callable[..., tuple[Tensor, ...]]


def dense(x: Tensor, weight: Tensor) -> Tensor:
    """W x with weight [G, n, n]."""
    return torch.matmul(x, weight.mT)


def dense_transpose(y: Tensor, weight: Tensor) -> Tensor:
    """W^T y."""
    return torch.matmul(y, weight)


def dense_transpose_sum(y: Tensor, weight: Tensor) -> Tensor:
    """One product over units and gates together."""
    return torch.mm(_side_by_side(y), weight.flatten(0, 1))


def dense_gradients(x: Tensor, grad: Tensor, weight: Tensor) -> tuple[Tensor]:
    """Sum over rows of grad x^T."""
    return (_outer(grad, x, weight),)


def project(x: Tensor, right: Tensor) -> Tensor:
    """R x: the state's d-dimensional summary, with R [G or 1, d, n]."""
    return torch.matmul(x, right.mT)


def expand(z: Tensor, left: Tensor) -> Tensor:
    """L z: the summary spread over all units, with L [G, n, d]."""
    return torch.matmul(z, left.mT)


def low_rank(x: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """L (R x)."""
    return expand(project(x, right), left)


def low_rank_transpose(y: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """R^T (L^T y)."""
    return low_rank(y, right.mT, left.mT)


def low_rank_transpose_sum(y: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The summaries of all gates meet in one product; shared R sees their sum."""
    z = expand(y, left.mT)
    if right.shape[0] == 1:
        return torch.mm(z.sum(0), right[0])
    return torch.mm(_side_by_side(z), right.flatten(0, 1))


def low_rank_gradients(
    x: Tensor, grad: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """Both factors see only the d-wide summary of the other side."""
    return _outer(grad, project(x, right), left), _outer(expand(grad, left.mT), x, right)


def low_rank_plus_diagonal(x: Tensor, left: Tensor, right: Tensor, diagonal: Tensor) -> Tensor:
    """L (R x) + D x with D [G, n]."""
    return torch.addcmul(low_rank(x, left, right), x, diagonal.unsqueeze(1))


def low_rank_plus_diagonal_transpose(
    y: Tensor, left: Tensor, right: Tensor, diagonal: Tensor
) -> Tensor:
    """R^T (L^T y) + D y."""
    return low_rank_plus_diagonal(y, right.mT, left.mT, diagonal)


def low_rank_plus_diagonal_transpose_sum(
    y: Tensor, left: Tensor, right: Tensor, diagonal: Tensor
) -> Tensor:
    """The low-rank sum, and each unit's own over the gates."""
    return low_rank_transpose_sum(y, left, right) + (y * diagonal.unsqueeze(1)).sum(0)


def low_rank_plus_diagonal_gradients(
    x: Tensor, grad: Tensor, left: Tensor, right: Tensor, diagonal: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The low-rank gradients, and each unit's own product for the diagonal."""
    return *low_rank_gradients(x, grad, left, right), (grad * x).sum(1)


def block_diagonal(x: Tensor, blocks: Tensor) -> Tensor:
    """Each run of s units through its own block, with blocks [G, k, s, s]."""
    mixed = torch.matmul(_runs(x, blocks), blocks.mT)
    return mixed.transpose(1, 2).flatten(2)


def block_diagonal_transpose(y: Tensor, blocks: Tensor) -> Tensor:
    """The same with every block transposed."""
    return block_diagonal(y, blocks.mT)


def block_diagonal_transpose_sum(y: Tensor, blocks: Tensor) -> Tensor:
    """Block by block, summed over the gates."""
    return block_diagonal_transpose(y, blocks).sum(0)


def block_diagonal_gradients(x: Tensor, grad: Tensor, blocks: Tensor) -> tuple[Tensor]:
    """A dense gradient for each block."""
    return (torch.matmul(_runs(grad, blocks).mT, _runs(x, blocks)),)


def block_diagonal_plus_low_rank(x: Tensor, blocks: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Blocks along the diagonal plus L R."""
    return block_diagonal(x, blocks) + low_rank(x, left, right)


def block_diagonal_plus_low_rank_transpose(
    y: Tensor, blocks: Tensor, left: Tensor, right: Tensor
) -> Tensor:
    """The transpose of the sum."""
    return block_diagonal_transpose(y, blocks) + low_rank_transpose(y, left, right)


def block_diagonal_plus_low_rank_transpose_sum(
    y: Tensor, blocks: Tensor, left: Tensor, right: Tensor
) -> Tensor:
    """Those of both parts."""
    return block_diagonal_transpose_sum(y, blocks) + low_rank_transpose_sum(y, left, right)


def block_diagonal_plus_low_rank_gradients(
    x: Tensor, grad: Tensor, blocks: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Those of both parts."""
    of_blocks = block_diagonal_gradients(x, grad, blocks)
    return *of_blocks, *low_rank_gradients(x, grad, left, right)


def _outer(grad: Tensor, x: Tensor, like: Tensor) -> Tensor:
    """Sum over rows of grad x^T, and over the gates too where they share the factor."""
    if like.shape[0] == 1 and x.shape[0] == 1:
        grad = grad.sum(0, keepdim=True)
    product = row_products(grad, x)
    return product.sum(0, keepdim=True) if like.shape[0] == 1 else product


def _side_by_side(stacked: Tensor) -> Tensor:
    """[G, N, k] -> [N, G k]."""
    return stacked.transpose(0, 1).flatten(1)


def _runs(x: Tensor, blocks: Tensor) -> Tensor:
    return x.unflatten(-1, blocks.shape[1:3]).transpose(1, 2)


STRUCTURES: dict[str, Structure] = {
    structure.name: structure
    for structure in (
        Structure(
            "dense",
            ("weight",),
            dense,
            dense_transpose,
            dense_transpose_sum,
            dense_gradients,
        ),
        Structure(
            "low_rank",
            ("expand", "project"),
            low_rank,
            low_rank_transpose,
            low_rank_transpose_sum,
            low_rank_gradients,
        ),
        Structure(
            "low_rank_plus_diagonal",
            ("expand", "project", "diagonal"),
            low_rank_plus_diagonal,
            low_rank_plus_diagonal_transpose,
            low_rank_plus_diagonal_transpose_sum,
            low_rank_plus_diagonal_gradients,
        ),
        Structure(
            "block_diagonal",
            ("blocks",),
            block_diagonal,
            block_diagonal_transpose,
            block_diagonal_transpose_sum,
            block_diagonal_gradients,
        ),
        Structure(
            "block_diagonal_plus_low_rank",
            ("blocks", "expand", "project"),
            block_diagonal_plus_low_rank,
            block_diagonal_plus_low_rank_transpose,
            block_diagonal_plus_low_rank_transpose_sum,
            block_diagonal_plus_low_rank_gradients,
        ),
    )
}
