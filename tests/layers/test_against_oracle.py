"""GRU and LSTM against the scalar transcription of the paper, every structure, forward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accuracy import assert_accurate
from layer_twins import gate_numbers, randomised, signed
from oracle import gru as gru_oracle
from oracle import lstm as lstm_oracle
from oracle import matrices as matrix_oracle
from plain_loops import dense_matrices, drive_of, gru_loop, lstm_loop
from structures import SIZE, STRUCTURES

import passnet

M, T, B = 3, 5, 4
each_structure = pytest.mark.parametrize("spec", STRUCTURES.values(), ids=STRUCTURES)


def named_factors(cell) -> dict[str, torch.Tensor]:
    return dict(zip(cell.recurrent.structure.factors, cell.recurrent.factors(), strict=True))


def written_out(cell):
    """([G, n, n] in the layer's dtype by plain torch, the oracle's dict of the same)."""
    factors, names = named_factors(cell), cell.gate_names
    reference = dense_matrices(cell.recurrent.structure.name, factors, len(names))
    oracle = {}
    for index, gate in enumerate(names):
        own = {k: f[index % len(f)].detach().double().numpy() for k, f in factors.items()}
        if "weight" in own:
            oracle[gate] = own["weight"]
            continue
        n = SIZE
        oracle[gate] = np.zeros((n, n))
        if "expand" in own:
            oracle[gate] = matrix_oracle.low_rank(own["expand"], own["project"])
        if "diagonal" in own:
            oracle[gate] = matrix_oracle.low_rank_plus_diagonal(
                own["expand"], own["project"], own["diagonal"]
            )
        if "blocks" in own:
            oracle[gate] = oracle[gate] + matrix_oracle.block_diagonal(own["blocks"])
    return reference, oracle


def tensor(values) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values))


@each_structure
@pytest.mark.parametrize(("reset", "inner"), [("before", False), ("after", False), ("after", True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gru(spec, reset, inner, dtype):
    layer = passnet.GRU(
        M,
        SIZE,
        matrix=spec,
        reset=reset,
        recurrent_bias=inner,
        learn_initial_state=True,
        dtype=dtype,
    )
    cell = randomised(layer).cells[0]
    x = signed(T, B, M).to(dtype)
    w, oracle_w = written_out(cell)
    start = layer.initial_hidden[0].expand(B, -1)
    truth = gru_oracle.gru(
        x.double().numpy(),
        start.detach().double().numpy(),
        gate_numbers(cell.input_weight, cell.gate_names),
        oracle_w,
        gate_numbers(cell.bias, cell.gate_names),
        reset=reset,
        inner_bias=cell.inner_bias.detach().double().numpy() if inner else None,
    )
    drive = drive_of(x, cell.input_weight, cell.bias)
    reference = gru_loop(drive, start, w, reset=reset, inner_bias=cell.inner_bias)
    y, h = layer(x)
    assert_accurate(y, reference=reference, truth=tensor(truth))
    assert torch.equal(h, y[-1:])


@each_structure
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_lstm(spec, dtype):
    layer = passnet.LSTM(M, SIZE, matrix=spec, learn_initial_state=True, dtype=dtype)
    cell = randomised(layer).cells[0]
    x = signed(T, B, M).to(dtype)
    w, oracle_w = written_out(cell)
    starts = [s[0].expand(B, -1) for s in (layer.initial_hidden, layer.initial_cell)]
    truth = lstm_oracle.lstm(
        x.double().numpy(),
        *(s.detach().double().numpy() for s in starts),
        gate_numbers(cell.input_weight, cell.gate_names),
        oracle_w,
        gate_numbers(cell.bias, cell.gate_names),
    )
    reference = lstm_loop(drive_of(x, cell.input_weight, cell.bias), *starts, w)
    y, (h, c) = layer(x)
    assert_accurate(y, reference=reference[0], truth=tensor(truth[0]))
    assert_accurate(c[0], reference=reference[1][-1], truth=tensor(truth[1][-1]))
    assert torch.equal(h, y[-1:])
