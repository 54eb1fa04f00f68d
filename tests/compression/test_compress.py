"""Compressed layers: near what they were made of, everything else as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import pack_sequence

import passnet
from passnet.compression import fitting
from passnet.compression.compress import UNSEEN, _moments
from passnet.layers.entering import entering

LRD = passnet.LowRankPlusDiagonal(5)
LAYERS = {
    "nn.GRU": lambda: nn.GRU(6, 20, num_layers=2, bidirectional=True),
    "nn.LSTM": lambda: nn.LSTM(6, 20, batch_first=True),
    "GRU before": lambda: passnet.GRU(6, 20, 2, reset="before", bidirectional=True, init="torch"),
    "LSTM": lambda: passnet.LSTM(6, 20, learn_initial_state=True, init="torch"),
    "GRU weight norm": lambda: passnet.GRU(6, 20, weight_norm=True, init="torch"),
    "GRU low-rank": lambda: passnet.GRU(6, 20, matrix=passnet.LowRank(12), init="torch"),
}


@pytest.fixture(params=LAYERS)
def layer(request) -> nn.Module:
    torch.manual_seed(0)
    return LAYERS[request.param]().double().eval()


def sequences(layer, *, batch: int = 40, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, 15, 6) if layer.batch_first else (15, batch, 6)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@torch.no_grad()
def far(layer, small, x) -> float:
    wanted = layer(x)[0]
    return float((small(x)[0] - wanted).norm() / wanted.norm())


def test_the_full_rank_changes_nothing(layer):
    x = sequences(layer)
    for inputs in (None, x):
        small = passnet.compress(layer, passnet.LowRank(20), inputs=inputs)
        assert far(layer, small, x) < 1e-10
        assert max(passnet.compression_error(layer, small, inputs=x).values()) < 1e-10


def test_what_states_do_counts_more_than_what_matrices_are(layer):
    x, others = sequences(layer), sequences(layer, seed=2)
    by_matrices = passnet.compress(layer, LRD)
    by_states = passnet.compress(layer, LRD, inputs=x)
    assert far(layer, by_states, others) < 0.5 * far(layer, by_matrices, others)
    plain, weighed = (
        [passnet.compression_error(layer, small, inputs=x) for small in (by_matrices, by_states)]
        if inputs
        else [passnet.compression_error(layer, small) for small in (by_matrices, by_states)]
        for inputs in (False, True)
    )
    assert all(plain[0][gate] < plain[1][gate] for gate in plain[0])
    assert all(weighed[1][gate] < weighed[0][gate] for gate in weighed[0])
    assert passnet.count_parameters(by_states) < passnet.count_parameters(layer)


def test_everything_else_stays_as_it_was(layer):
    before = {name: p.clone() for name, p in layer.named_parameters()}
    small = passnet.compress(layer, LRD, inputs=sequences(layer))
    assert all(torch.equal(p, before[name]) for name, p in layer.named_parameters())
    ours = (
        layer if isinstance(layer, (passnet.GRU, passnet.LSTM)) else type(small).from_torch(layer)
    )
    kept = {name for name, _ in ours.named_parameters() if ".recurrent." not in name}
    own, new = dict(ours.named_parameters()), dict(small.named_parameters())
    assert kept == {name for name in new if ".recurrent." not in name}
    assert all(torch.equal(new[name], own[name]) for name in kept)
    assert all(new[name].data_ptr() != own[name].data_ptr() for name in kept)
    assert repr(small.matrix) in repr(small) and small.matrix == LRD
    assert not small.training and small.batch_first == layer.batch_first
    assert getattr(small, "reset", "after") == getattr(layer, "reset", "after")
    again = type(small)(6, 20, **shared(small))
    again.double().load_state_dict(small.state_dict())
    x = sequences(layer)
    torch.testing.assert_close(again.eval()(x)[0], small(x)[0])


def shared(small) -> dict:
    names = ("num_layers", "batch_first", "bidirectional", "matrix", "weight_norm")
    found = {name: getattr(small, name) for name in (*names, "learn_initial_state")}
    if isinstance(small, passnet.GRU):
        found |= {"reset": small.reset, "recurrent_bias": small.recurrent_bias}
    return found


def test_gates_that_share_a_projection_that_read_different_vectors():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, reset="before", init="torch").double().eval()
    x, tied = sequences(layer), passnet.LowRankPlusDiagonal(5, tied=True)
    by_matrices = passnet.compress(layer, tied)
    assert far(layer, passnet.compress(layer, tied, inputs=x), x) < 0.5 * far(layer, by_matrices, x)


def test_several_batches_are_one_set_of_states(layer):
    x = sequences(layer)
    axis = 0 if layer.batch_first else 1
    whole = passnet.compress(layer, LRD, inputs=x)
    parts = passnet.compress(layer, LRD, inputs=iter(x.split(7, dim=axis)))
    torch.testing.assert_close(whole(x)[0], parts(x)[0])


def test_how_often_states_were_seen_does_not_matter(layer):
    x = sequences(layer)
    once, often = (passnet.compress(layer, LRD, inputs=[x] * times) for times in (1, 5))
    torch.testing.assert_close(once(x)[0], often(x)[0])


def test_states_are_those_of_a_layer_at_work_not_in_training():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, init="torch", dropout_state=0.5).double().eval()
    x = sequences(layer)
    expected = passnet.compress(layer, LRD, inputs=x)
    found = passnet.compress(layer.train(), LRD, inputs=x)
    assert layer.training and found.training and found.dropouts == layer.dropouts
    torch.testing.assert_close(found.eval()(x)[0], expected(x)[0])


def test_symbols_are_inputs_too():
    torch.manual_seed(0)
    layer = passnet.GRU(9, 20, init="torch")
    symbols = torch.randint(9, (15, 30))
    small = passnet.compress(layer, LRD, inputs=symbols)
    features = nn.functional.one_hot(symbols, 9).float()
    same = passnet.compress(layer, LRD, inputs=features)
    torch.testing.assert_close(small(symbols)[0], same(symbols)[0])


def test_half_precision_is_fitted_in_more():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, init="torch").to(torch.bfloat16).eval()
    small = passnet.compress(layer, passnet.LowRank(20))
    assert small.cells[0].recurrent.expand.dtype == torch.bfloat16
    x = sequences(layer).to(torch.bfloat16)
    # Weights and products of two factors are rounded where those of one matrix were.
    few_roundings = 3 * torch.finfo(torch.bfloat16).eps
    torch.testing.assert_close(small(x)[0], layer(x)[0], rtol=0.0, atol=few_roundings)


def test_what_is_frozen_stays_frozen():
    layer = nn.GRU(6, 20)
    layer.weight_hh_l0.requires_grad_(False)
    small = passnet.compress(layer.train(), LRD)
    frozen = {name for name, p in small.named_parameters() if not p.requires_grad}
    assert frozen == {f"cells.0.recurrent.{name}" for name in ("expand", "project", "diagonal")}
    assert small.training and small.cells[0].recurrent.training
    in_part = passnet.GRU(6, 20, matrix=passnet.LowRank(12))
    in_part.cells[0].recurrent.expand.requires_grad_(False)
    assert all(p.requires_grad for p in passnet.compress(in_part, LRD).parameters())


def test_states_that_were_never_anywhere_leave_the_matrices_alone():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, bias=False, init="torch").double().eval()
    zeros = torch.zeros(5, 3, 6, dtype=torch.float64)
    small, plain = passnet.compress(layer, LRD, inputs=zeros), passnet.compress(layer, LRD)
    x = sequences(layer)
    torch.testing.assert_close(small(x)[0], plain(x)[0])


def test_matrices_of_zeros_have_no_error():
    layer = passnet.GRU(6, 20)
    nn.init.zeros_(layer.cells[0].recurrent.weight)
    errors = passnet.compression_error(layer, passnet.compress(layer, LRD))
    assert set(errors.values()) == {0.0}


def test_zeros_under_weight_norm_are_zeros_still():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, weight_norm=True, init="torch").double().eval()
    with torch.no_grad():
        layer.cells[0].recurrent.weight[1] = 0
    small = passnet.compress(layer, passnet.LowRank(20))
    assert far(layer, small, sequences(layer)) < 1e-10


def test_the_first_round_without_an_error_is_the_last(monkeypatch):
    turns = []
    turned = fitting._turned
    monkeypatch.setattr(fitting, "_turned", lambda *a, **k: turns.append(a) or turned(*a, **k))
    layer = passnet.GRU(6, 20)
    nn.init.zeros_(layer.cells[0].recurrent.weight)
    passnet.compress(layer, LRD)
    assert 2 <= len(turns) <= 4


def test_autocast_around_it_costs_no_digits():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, matrix=passnet.LowRank(12), init="torch")
    with torch.autocast("cpu", torch.bfloat16):
        small = passnet.compress(layer, passnet.LowRank(20))
        errors = passnet.compression_error(layer, small)
    assert far(layer, small, sequences(layer).float()) < 1e-6
    assert max(errors.values()) < 1e-6


@pytest.mark.parametrize("name", ["recurrent", "input"])
def test_pruned_weights_are_what_is_compressed(name):
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, init="torch").double().eval()
    cell, x = layer.cells[0], sequences(layer)
    pruned = (cell.recurrent, "weight") if name == "recurrent" else (cell, "input_weight")
    prune.random_unstructured(*pruned, amount=0.5)
    assert far(layer, passnet.compress(layer, passnet.LowRank(20), inputs=x), x) < 1e-10


def test_errors_of_layers_of_torch():
    layer = nn.GRU(6, 20)
    small = passnet.compress(layer, LRD)
    errors = passnet.compression_error(layer, small)
    assert passnet.compression_error(layer, small.to_torch()) == pytest.approx(errors, rel=1e-5)


def test_errors_are_shares_by_gate():
    layer = passnet.LSTM(6, 20, 2, bidirectional=True)
    errors = passnet.compression_error(layer, passnet.compress(layer, passnet.LowRank(1)))
    gates = ("transform", "carry", "candidate", "output")
    assert list(errors) == [f"cells.{index}.{gate}" for index in range(4) for gate in gates]
    weight = layer.cells[1].recurrent.weight[2].detach().double()
    values = torch.linalg.svdvals(weight)
    share = float(values[1:].norm() / values.norm())
    assert errors["cells.1.candidate"] == pytest.approx(share, rel=1e-5)


def test_what_enters_a_layer_that_resets_after_are_the_states_before_each_step():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, 2, learn_initial_state=True).double().eval()
    with torch.no_grad():
        layer.initial_hidden.uniform_(-1, 1)
    x = sequences(layer)
    first, second = entering(layer, x)
    start = layer.initial_hidden[1].expand(1, 40, 20)
    expected = torch.cat((start, layer(x)[0][:-1])).flatten(0, 1)
    torch.testing.assert_close(second, expected.unsqueeze(0))
    assert first.shape == second.shape


def test_what_enters_a_candidate_that_is_reset_before_is_what_its_gate_leaves():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, reset="before", init="torch").double().eval()
    x = sequences(layer)
    state = torch.cat((torch.zeros(1, 40, 20, dtype=torch.float64), layer(x)[0][:-1]))
    cell = layer.cells[0]
    drive = x @ cell.input_weight[0].T + cell.bias[0]
    reset = torch.sigmoid(drive + layer.recurrent_matrix("reset")(state))
    expected = torch.stack((state, state, reset * state)).flatten(1, 2)
    torch.testing.assert_close(entering(layer, x)[0], expected)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps_behind_the_end_do_not_enter(bidirectional):
    torch.manual_seed(0)
    layer = passnet.LSTM(6, 20, bidirectional=bidirectional).double().eval()
    parts = [sequences(layer, batch=1, seed=s)[:k, 0] for s, k in enumerate((9, 5, 2))]
    together = entering(layer, pack_sequence(parts))
    alone = [entering(layer, part) for part in parts]
    for index, vectors in enumerate(together):
        expected = torch.cat([each[index] for each in alone], dim=1)
        assert vectors.shape == (1, 9 + 5 + 2, 20)
        torch.testing.assert_close(vectors.mT @ vectors, expected.mT @ expected)


def test_the_mean_direction_counts_one_and_one_without_states_a_hundredth():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, reset="before", init="torch").double().eval()
    (moments,) = _moments(layer, sequences(layer, batch=1)[:3])
    values = torch.linalg.eigvalsh(moments)
    torch.testing.assert_close(values.mean(-1), torch.full((3,), 1.01, dtype=torch.float64))
    torch.testing.assert_close(values[:, 0], torch.full((3,), 0.01, dtype=torch.float64))


def test_products_of_states_in_half_precision_are_summed_in_double():
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, init="torch").to(torch.bfloat16).eval()
    x = sequences(layer).to(torch.bfloat16)
    (moments,), (vectors,) = _moments(layer, x), entering(layer, x)
    second = vectors.double().mT @ vectors.double()
    mean = second.diagonal(dim1=-2, dim2=-1).mean()
    eye = torch.eye(20, dtype=torch.float64)
    torch.testing.assert_close(moments, second / mean + UNSEEN * eye)


def test_directions_without_states_count_a_little():
    """Enough for the fit to be defined, and to keep a matrix where it costs nothing."""
    torch.manual_seed(0)
    layer = passnet.GRU(6, 20, init="torch").double().eval()
    one = sequences(layer, batch=1)[:2]
    small = passnet.compress(layer, passnet.LowRank(18), inputs=one)
    assert 0 < UNSEEN < 0.1 and far(layer, small, one) < 1e-2
    assert max(passnet.compression_error(layer, small).values()) < 0.2


def holding(value: float) -> passnet.GRU:
    layer = passnet.GRU(6, 20, 2)
    nn.init.constant_(layer.cells[1].recurrent.weight[2], value)
    return layer


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: passnet.compress(nn.GRU(6, 20), passnet.Dense()), ValueError, "nothing smaller"),
        (lambda: passnet.compress(nn.GRU(6, 20), 5), TypeError, "matrix=5 is not a structure"),
        (lambda: passnet.compress(nn.GRU(6, 4), LRD), ValueError, "rank=5 does not fit"),
        (lambda: passnet.compress(nn.RNN(6, 20), LRD), TypeError, "got a RNN: give a GRU or LSTM"),
        (lambda: passnet.compress(nn.LSTM(6, 20, proj_size=5), LRD), ValueError, "proj_size=5"),
        (lambda: passnet.compress(nn.GRU(6, 20), LRD, inputs=[]), ValueError, "no sequences"),
        (
            lambda: passnet.compress(nn.GRU(6, 20), LRD, inputs=torch.full((3, 2, 6), torch.nan)),
            ValueError,
            "not finite",
        ),
        (
            lambda: passnet.compress(nn.GRU(6, 20), LRD, inputs=torch.zeros(3, 2, 7)),
            ValueError,
            "7 features and the layer input_size=6",
        ),
        (lambda: passnet.compress(nn.GRU(6, 20), LRD, inputs=5), TypeError, "inputs is a int"),
        (lambda: passnet.compress(holding(torch.inf), LRD), ValueError, "1.*weight holds"),
        (
            lambda: passnet.compression_error(passnet.GRU(6, 20, 2), holding(torch.nan)),
            ValueError,
            "cells.1.recurrent.weight holds numbers that are not finite",
        ),
        (lambda: passnet.compress(nn.GRU(6, 20, device="meta"), LRD), ValueError, "no numbers"),
        (
            lambda: passnet.compression_error(nn.GRU(6, 20), passnet.LSTM(6, 20)),
            ValueError,
            "these layers do not match, GRU of 20 units, layers=1, directions=1 and LSTM of 20",
        ),
        (
            lambda: passnet.compression_error(nn.GRU(6, 20, 2), nn.GRU(6, 20, bidirectional=True)),
            ValueError,
            "layers=2, directions=1 and GRU of 20 units, layers=1, directions=2",
        ),
        (lambda: passnet.compression_error(nn.GRU(6, 20), 5), TypeError, "got a int: give a GRU"),
    ],
)
def test_what_cannot_be_compressed_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
