"""The paper's hard constraint: no row of a parameter matrix longer than a maximum."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from passnet.cells.highway import HighwayCell
from passnet.cells.recurrent import RecurrentCell
from passnet.layers.arguments import check_row_norm
from passnet.layers.highway import Highway
from passnet.layers.recurrent import RecurrentLayer


@torch.no_grad()
def clip_row_norms_(module: nn.Module, max_norm: float | None = None) -> None:
    """Clip the row norms of all passnet matrices in `module`, in place.

    Without `max_norm` each layer's own `max_row_norm` applies, and layers without one are skipped.
    Rows are those of the stored matrices, inputs and factors alike: under weight normalisation only
    their directions matter, so clipping does not change what the layer computes.
    Diagonals, biases and scales are never clipped. Call it after each optimiser step.
    """
    check_row_norm(max_norm, "max_norm")
    for layer in module.modules():
        if isinstance(layer, RecurrentLayer | Highway):
            limit = layer.max_row_norm if max_norm is None else max_norm
            if limit is not None:
                for matrix in _matrices(layer):
                    clip_rows_(matrix, limit)


@torch.no_grad()
def clip_rows_(matrix: Tensor, max_norm: float) -> None:
    """Shorten the rows (last axis) of one tensor to at most `max_norm`, in place."""
    lengths = torch.linalg.vector_norm(matrix, dim=-1, keepdim=True)
    matrix.copy_(torch.where(lengths > max_norm, matrix * (max_norm / lengths), matrix))


def _matrices(layer: nn.Module) -> Iterator[Tensor]:
    for cell in layer.modules():
        if isinstance(cell, RecurrentCell):
            yield _stored(cell, "input_weight")
        if isinstance(cell, RecurrentCell | HighwayCell):
            for name in cell.recurrent.matrix_factors:
                yield _stored(cell.recurrent, name)


def _stored(module: nn.Module, name: str) -> Tensor:
    if name not in module._parameters:
        how = "parametrised" if is_parametrized(module, name) else "pruned or normalised"
        raise ValueError(
            f"{name} is {how}, so its rows are not stored and cannot be clipped: clip its original "
            "yourself, or put the constraint into a parametrisation"
        )
    return module._parameters[name]  # pyright: ignore
