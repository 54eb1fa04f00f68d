"""Factors of so high a rank that a small scan is faster with the matrices they make up.

A dense matrix is one product a step where factors are two in a row, with a barrier between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import ceil

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.compile import macros, read_source
from passnet.ops.cuda.launches import Launches
from passnet.ops.cuda.small_plan import plan
from passnet.ops.cuda.tensors import dense

THREADS = 256
"""Of a block: `whole.cu` has the same."""

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


@cache
def instead(call: Call) -> Call:
    """The call with whole matrices."""
    return replace(call, rank=None, diagonal=False, tied=False)


def _cycles(call: Call, shared_limit: int) -> float | None:
    """Those of a step forwards and backwards, or None where one multiprocessor has no room."""
    plans = [plan(call, backward=backward, shared_limit=shared_limit) for backward in (False, True)]
    return None if None in plans else sum(found.cycles for found in plans if found is not None)


def source() -> str:
    """The text of both kernels."""
    return read_source("ptx.cuh", "whole.cu")


def options(call: Call) -> tuple[str, ...]:
    """Their macros, for a call with factors."""
    sizes = {"N": call.units, "D": call.rank, "G": call.gates}
    return macros(sizes | {"DIAG": int(call.diagonal), "TIED": int(call.tied)})


@cache
def _forming(call: Call, chip: Chip) -> tuple[Launches, tuple]:
    """The kernel of the matrices and its grid."""
    kernel = chip.kernel(source(), "form_matrices", options=options(call), shared=0)
    return kernel, (ceil(call.gates * call.units**2 / THREADS), 1, 1)


@cache
def _gradients(call: Call, chip: Chip) -> tuple[Launches, tuple]:
    """The kernel of the factors' gradients and its grid."""
    assert call.rank is not None
    kernel = chip.kernel(source(), "factor_gradients", options=options(call), shared=0)
    rights = (1 if call.tied else call.gates) * call.units * call.rank
    blocks = ceil(call.gates * call.units * 32 / THREADS) + ceil(rights / THREADS)
    return kernel, (blocks, 1, 1)


def matrices(chip: Chip, call: Call, factors: Sequence[Tensor]) -> Tensor:
    """W = L R, or L R + D, `[G, n, n]`."""
    given = [dense(factor) for factor in factors]
    made = given[0].new_empty((call.gates, call.units, call.units))
    kernel, grid = _forming(call, chip)
    kernel.launch(grid, THREADS, [*(*given, None)[:3], made])
    return made


def factor_gradients(
    chip: Chip, call: Call, factors: Sequence[Tensor], grad: Tensor
) -> list[Tensor]:
    """Those of L, R and D from that of W."""
    left, right, *_ = map(dense, factors)
    made = [torch.empty_like(factor, memory_format=torch.contiguous_format) for factor in factors]
    kernel, grid = _gradients(call, chip)
    kernel.launch(grid, THREADS, [left, right, grad, *(*made, None)[:3]])
    return made
