"""Factors of so high a rank that a small scan is faster with the matrices they make up.

A dense matrix is one product a step where factors are two in a row, with a barrier between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.small_plan import plan

AT_LEAST = 1.1
"""How many times the cycles factors have to take: forming matrices and gradients takes some too."""


def pays(call: Call, *, shared_limit: int) -> bool:
    """Whether both passes of a scan take clearly fewer cycles with whole matrices.

    Only float32 ones: products that are rounded to sixteen bits are not what the factors say.
    """
    if call.rank is None or call.dtype != torch.float32:
        return False
    matrices, factors = _cycles(instead(call), shared_limit), _cycles(call, shared_limit)
    return matrices is not None and (factors is None or AT_LEAST * matrices < factors)


def instead(call: Call) -> Call:
    """The call with whole matrices."""
    return replace(call, rank=None, diagonal=False, tied=False)


def _cycles(call: Call, shared_limit: int) -> float | None:
    """Those of a step forwards and backwards, or None where one multiprocessor has no room."""
    plans = [plan(call, backward=backward, shared_limit=shared_limit) for backward in (False, True)]
    return None if None in plans else sum(found.cycles for found in plans if found is not None)


def matrices(factors: Sequence[Tensor]) -> Tensor:
    """W = L R, or L R + D, `[G, n, n]`."""
    left, right, *diagonal = factors
    product = left @ right
    if diagonal:
        product.diagonal(dim1=1, dim2=2).add_(diagonal[0])
    return product


def factor_gradients(factors: Sequence[Tensor], grad: Tensor) -> list[Tensor]:
    """Those of L, R and D from that of W."""
    left, right, *diagonal = factors
    grad_right = left.mT @ grad
    if right.shape[0] == 1:
        grad_right = grad_right.sum(0, keepdim=True)
    own = [grad.diagonal(dim1=1, dim2=2).clone() for _ in diagonal]
    return [grad @ right.mT, grad_right, *own]
