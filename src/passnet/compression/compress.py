"""Trained layers with smaller state matrices, and how far they are from those they were made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from passnet.cells.recurrent import RecurrentCell
from passnet.compression.fitting import fit
from passnet.config.matrix import Dense, MatrixSpec
from passnet.layers.copying import copied
from passnet.layers.entering import entering
from passnet.layers.gru import GRU
from passnet.layers.lstm import LSTM
from passnet.layers.recurrent import RecurrentLayer
from passnet.matrices import build_matrix, check_spec
from passnet.matrices.structured import StructuredMatrix, unit_rows

Inputs = Tensor | PackedSequence | Iterable[Tensor | PackedSequence]

UNSEEN = 1e-2
"""What a direction counts that no state has, as a share of the mean one's second moment."""


@overload
def compress(layer: GRU | nn.GRU, matrix: MatrixSpec, *, inputs: Inputs | None = None) -> GRU: ...
@overload
def compress(
    layer: LSTM | nn.LSTM, matrix: MatrixSpec, *, inputs: Inputs | None = None
) -> LSTM: ...
@torch.no_grad()
def compress(
    layer: GRU | LSTM | nn.GRU | nn.LSTM, matrix: MatrixSpec, *, inputs: Inputs | None = None
) -> GRU | LSTM:
    """A copy of `layer` whose state matrices have the structure `matrix`, as near as possible.

    Everything else is copied, and `layer` itself is not changed. `inputs` are typical sequences: a
    tensor or PackedSequence, or several in an iterable. With them the products of matrices and
    states are approximated, without them the matrices themselves, which is worse.
    """
    own = _own(layer)
    if isinstance(matrix, Dense):
        raise ValueError(
            "matrix=Dense() makes nothing smaller: give LowRankPlusDiagonal(rank) or another "
            "structure"
        )
    check_spec(matrix, own.hidden_size)
    small = copied(own)
    parts = zip(_cells(small), _weights(own), _moments(own, inputs), strict=True)
    for cell, weight, moments in parts:
        cell.recurrent = _filled(cell.recurrent, matrix, fit(weight, matrix, moments))
    small.matrix = matrix
    return small


@torch.no_grad()
def compression_error(
    layer: GRU | LSTM | nn.GRU | nn.LSTM,
    small: GRU | LSTM | nn.GRU | nn.LSTM,
    *,
    inputs: Inputs | None = None,
) -> dict[str, float]:
    """The relative error of the state matrices of `small` beside those of `layer`.

    For each gate, named as in `cells.0.carry`, the root of the sum of squares of the difference
    over that of the original: of the matrices or, with `inputs`, of their products with the states
    of `layer`.
    """
    own, small = _own(layer), _own(small)
    if _shape(own) != _shape(small):
        raise ValueError(
            f"these layers do not match, {_said(own)} and {_said(small)}: give a layer and what "
            "compress() made of it"
        )
    found = {}
    parts = zip(_cells(own), _weights(own), _weights(small), _moments(own, inputs), strict=True)
    for index, (cell, weight, other, moments) in enumerate(parts):
        lost, whole = (_square(matrices, moments) for matrices in (weight - other, weight))
        shares = torch.where(lost > 0, lost / whole, 0.0).sqrt()
        for gate, share in zip(cell.gate_names, shares.tolist(), strict=True):
            found[f"cells.{index}.{gate}"] = share
    return found


def _own(layer: nn.Module) -> GRU | LSTM:
    if isinstance(layer, nn.GRU):
        layer = GRU.from_torch(layer)
    if isinstance(layer, nn.LSTM):
        layer = LSTM.from_torch(layer)
    if not isinstance(layer, GRU | LSTM):
        raise TypeError(
            f"got a {type(layer).__name__}: give a GRU or LSTM, of torch.nn or passnet; "
            "compress the layers of a model one by one"
        )
    for name, parameter in layer.named_parameters():
        if parameter.is_meta:
            raise ValueError("the layer is on the meta device, where there are no numbers to fit")
        if not torch.isfinite(parameter).all():
            raise ValueError(
                f"{name} holds numbers that are not finite: take the layer from before it diverged"
            )
    return layer


def _cells(layer: RecurrentLayer) -> list[RecurrentCell]:
    return cast(list[RecurrentCell], list(layer.cells))


def _shape(layer: RecurrentLayer) -> tuple[type, int, int, int]:
    return type(layer), layer.hidden_size, layer.num_layers, layer.directions


def _said(layer: RecurrentLayer) -> str:
    kind, units, layers, directions = _shape(layer)
    return f"{kind.__name__} of {units} units, layers={layers}, directions={directions}"


def _weights(layer: RecurrentLayer) -> Iterator[Tensor]:
    """The matrices of each cell written out, `[G, n, n]`, in the dtype to compute in."""
    for cell in _cells(layer):
        gates = [cell.recurrent.gate(index).dense() for index in range(cell.recurrent.gates)]
        yield torch.stack(gates).double()


def _moments(layer: RecurrentLayer, inputs: Inputs | None) -> Iterator[Tensor]:
    """Mean products of what enters each cell's matrices, `[G or 1, n, n]`."""
    device = _cells(layer)[0].input_weight.device
    alike = torch.eye(layer.hidden_size, dtype=torch.float64, device=device)
    if inputs is None:
        yield from [alike.unsqueeze(0)] * len(layer.cells)
        return
    quiet = copied(layer).eval()
    given = [inputs] if isinstance(inputs, Tensor | PackedSequence) else inputs
    if not isinstance(given, Iterable):
        raise TypeError(
            f"inputs is a {type(inputs).__name__}: give a tensor or PackedSequence, or several"
        )
    sums: list[Tensor] = []
    for sequences in given:
        rows = [vectors.double() for vectors in entering(quiet, sequences)]
        products = [vectors.mT @ vectors for vectors in rows]
        sums = [a + b for a, b in zip(sums, products, strict=True)] if sums else products
    if not sums:
        raise ValueError("inputs: there are no sequences in it; give some, or leave it out")
    for moments in sums:
        mean = moments.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
        if not torch.isfinite(moments).all():
            raise ValueError("inputs: some states are not finite numbers; look for NaN in them")
        # A layer whose states are all zero has seen nothing: all directions are alike.
        yield torch.where(mean > 0, moments / mean, alike) + UNSEEN * alike


def _square(matrices: Tensor, moments: Tensor) -> Tensor:
    """The mean square of the products with vectors of these moments, for each gate."""
    return ((matrices @ moments) * matrices).sum((-2, -1))


def _filled(
    old: StructuredMatrix, spec: MatrixSpec, factors: dict[str, Tensor]
) -> StructuredMatrix:
    like = next(old.parameters())
    new = build_matrix(
        spec,
        old.size,
        gates=old.gates,
        weight_norm=old.weight_norm,
        device=like.device,
        dtype=like.dtype,
    )
    if old.weight_norm and "project" in factors:
        # Rows of R have length 1 there, and L their lengths; rows of zeros stay zero.
        rows = factors["project"]
        factors["expand"] = factors["expand"] * rows.norm(dim=-1).unsqueeze(-2)
        factors["project"] = unit_rows(rows)
    for name, factor in factors.items():
        getattr(new, name).copy_(factor)
    new.reset_scales()
    trained = any(parameter.requires_grad for parameter in old.parameters())
    return new.requires_grad_(trained).train(old.training)
