"""The compiled gradients of low-rank factors, from the rows of all steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from passnet.ops.cpu.library import GradientStruct, Library, installed

_FACTORS = {"low_rank": 2, "low_rank_plus_diagonal": 3}


def low_rank_gradients(
    structure: str,
    inputs: Tensor,
    grads: Tensor,
    factors: Sequence[Tensor],
    *,
    library: Library | str | None = None,
) -> tuple[Tensor, ...] | None:
    """What `Structure.gradients` computes, or None for what the library does not serve.

    `inputs` is `[g or 1, N, n]`, `grads` is `[g, N, n]`, and all are of one dtype.
    """
    library = installed() if library is None else library
    if (
        isinstance(library, str)
        or structure not in _FACTORS
        or grads.device.type != "cpu"
        or grads.dtype not in (torch.float32, torch.float64)
        or grads.numel() == 0
    ):
        return None
    gates, rows, units = grads.shape
    expand, project = factors[:2]
    given = [t.contiguous() for t in (inputs, grads, expand, project)]
    found = tuple(torch.empty(factor.shape, dtype=factor.dtype) for factor in factors)
    call = GradientStruct(
        grads.dtype == torch.float64,
        rows,
        units,
        project.shape[1],
        gates,
        inputs.shape[0],
        project.shape[0] == 1,
        torch.get_num_threads(),
        *(t.data_ptr() for t in given),
        *(t.data_ptr() for t in found),
    )
    library.factor_gradients(call)
    return found
