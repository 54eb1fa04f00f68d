"""Variational dropout and zoneout: which masks, where, how long, and what is never dropped."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accuracy import assert_accurate
from chances import assert_frequency, assert_mean
from layer_twins import gate_numbers, randomised, signed
from oracle import gru as gru_oracle
from oracle import lstm as lstm_oracle
from plain_loops import drive_of, gru_loop, lstm_loop
from spying import record_scans
from structures import SIZE, STRUCTURES

import passnet

M, T, B = 3, 5, 4
KINDS = {
    "GRU before": lambda *a, **k: passnet.GRU(*a, reset="before", **k),
    "GRU after": passnet.GRU,
    "LSTM": passnet.LSTM,
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def by_hand(layer, x, call):
    """(plain loop in the layer's dtype, scalar oracle) for one dense layer under given masks."""
    cell, names = layer.cells[0], layer.cells[0].gate_names
    drive = drive_of(x, cell.input_weight, cell.bias)
    w = cell.recurrent.weight
    start = torch.zeros(B, SIZE)
    masks = (
        None if call.masks is None else gate_numbers(call.masks.expand(len(names), -1, -1), names)
    )
    numbers = [gate_numbers(p, names) for p in (cell.input_weight, w, cell.bias)]
    x64, start64 = x.double().numpy(), start.double().numpy()

    def spread(hold):
        return None if hold is None else hold.expand(T, B, SIZE).double().numpy()

    shared = {"masks": call.masks, "hold": call.hold}
    if isinstance(layer, passnet.LSTM):
        reference = lstm_loop(drive, start, start, w, hold_cell=call.hold_cell, **shared)[0]
        truth = lstm_oracle.lstm(
            x64,
            start64,
            start64,
            *numbers,
            state_masks=masks,
            hold=spread(call.hold),
            hold_cell=spread(call.hold_cell),
        )[0]
    else:
        inner = cell.inner_bias
        reference = gru_loop(drive, start, w, reset=layer.reset, inner_bias=inner, **shared)
        truth = gru_oracle.gru(
            x64,
            start64,
            *numbers,
            reset=layer.reset,
            inner_bias=None if inner is None else inner.detach().double().numpy(),
            state_masks=masks,
            hold=spread(call.hold),
        )
    return {"reference": reference, "truth": torch.from_numpy(np.asarray(truth))}


@each_kind
@pytest.mark.parametrize("options", [{"dropout_state": 0.4}, {"zoneout": 0.3}], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_the_recurrence_is_the_oracles_under_the_masks_drawn(kind, options, training, monkeypatch):
    layer = randomised(KINDS[kind](M, SIZE, **options)).train(training)
    calls = record_scans(monkeypatch)
    x = signed(T, B, M)
    y, _ = layer(x)
    assert_accurate(y, **by_hand(layer, x, calls[0]))


@each_kind
@pytest.mark.parametrize("spec", STRUCTURES.values(), ids=STRUCTURES)
def test_one_mask_for_each_gate_or_a_shared_one_when_tied(kind, spec, monkeypatch):
    layer = KINDS[kind](M, SIZE, 2, matrix=spec, dropout_state=0.25)
    calls = record_scans(monkeypatch)
    layer(signed(T, 200, M))
    gates = 4 if kind == "LSTM" else 3
    assert len(calls) == 2
    for call in calls:
        count = 1 if getattr(spec, "tied", False) else gates
        assert call.masks.shape == (count, 200, SIZE)
        kept = call.masks != 0
        assert torch.equal(call.masks[kept], torch.full_like(call.masks[kept], 1 / 0.75))
        assert_frequency(kept, 0.75)
        for one in range(count):
            for other in range(one):
                assert not torch.equal(kept[one], kept[other])
    assert not torch.equal(calls[0].masks, calls[1].masks)


def test_masks_are_seen_to_be_fixed_over_time():
    """Where the state is tanh(b + m h), each step shows its own m: always the same."""
    layer = passnet.GRU(1, SIZE, reset="after", dropout_state=0.5, dtype=torch.float64)
    cell = layer.cells[0]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        cell.bias[0] = 1e4
        cell.bias[1] = -1e4
        cell.bias[2] = 0.5
        cell.recurrent.weight[2] = torch.eye(SIZE)
    x = torch.zeros(T, 300, 1, dtype=torch.float64)
    y, _ = layer(x)
    seen = ((torch.atanh(y[1:]) - 0.5) / y[:-1]).round(decimals=9)
    assert set(seen.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(seen, seen[:1].expand_as(seen))
    assert_frequency(seen[0] != 0, 0.5)
    again = layer(x)[0]
    assert not torch.equal(again, y)


@each_kind
def test_the_carry_path_is_never_dropped(kind):
    """An open carry gate keeps the state bit for bit, whatever the masks."""
    layer = KINDS[kind](M, SIZE, carry_bias=1e4, dropout_state=0.9, dropout_input=0.9)
    start = signed(1, B, SIZE)
    if kind == "LSTM":
        with torch.no_grad():
            layer.cells[0].bias[0] = -1e4
        _, (_, kept) = layer(signed(T, B, M), (signed(1, B, SIZE), start))
    else:
        _, kept = layer(signed(T, B, M), start)
    assert torch.equal(kept, start)


@each_kind
def test_evaluation_draws_nothing(kind, monkeypatch):
    options = {
        "dropout": 0.5,
        "dropout_input": 0.5,
        "dropout_state": 0.5,
        "dropout_output": 0.5,
    }
    layer = KINDS[kind](M, SIZE, 2, **options).eval()
    bare = KINDS[kind](M, SIZE, 2)
    bare.load_state_dict(layer.state_dict())
    x = signed(T, B, M)
    state = torch.get_rng_state()
    y, _ = layer(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(y, layer(x)[0])
    assert torch.equal(y, bare(x)[0])
    assert not torch.equal(y, layer.train()(x)[0])


@each_kind
@pytest.mark.parametrize("rate", ["dropout_input", "dropout_state", "dropout_output", "zoneout"])
def test_training_repeats_under_the_same_seed(kind, rate):
    layer = KINDS[kind](M, SIZE, **{rate: 0.5})
    x = signed(T, B, M)
    runs = []
    for seed in (7, 7, 8):
        torch.manual_seed(seed)
        runs.append(layer(x)[0])
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def through_identity(per: str, x: torch.Tensor) -> torch.Tensor:
    """What of the input contribution is left, T x B x m: a layer that shows its drive."""
    layer = passnet.GRU(3, 3, dropout_input=0.25, dropout_input_per=per, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.cells[0].bias[1] = -1e4
        layer.cells[0].input_weight[2] = torch.eye(3)
    return torch.atanh(layer(x)[0])


def test_input_masks_per_feature_last_the_whole_sequence():
    x = (0.5 * torch.rand(T, 300, 3) + 0.1).double()
    ratio = (through_identity("feature", x) / x).round(decimals=9)
    assert ratio.unique().tolist() == [0.0, round(1 / 0.75, 9)]
    assert torch.equal(ratio, ratio[:1].expand_as(ratio))
    assert not torch.equal(ratio[0], ratio[0, :, :1].expand_as(ratio[0]))
    assert_frequency(ratio[0] != 0, 0.75)


def test_input_masks_per_step_scale_the_whole_contribution():
    x = (0.5 * torch.rand(T, 300, 3) + 0.1).double()
    ratio = (through_identity("step", x) / x).round(decimals=9)
    assert ratio.unique().tolist() == [0.0, round(1 / 0.75, 9)]
    assert torch.equal(ratio, ratio[..., :1].expand_as(ratio))
    assert not torch.equal(ratio, ratio[:1].expand_as(ratio))
    assert_frequency(ratio[..., 0] != 0, 0.75)


@each_kind
@pytest.mark.parametrize("per", ["feature", "step"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("both_ways", [False, True])
def test_dropped_symbols_are_dropped_one_hot_vectors(kind, per, bias, both_ways):
    options = {"dropout_input": 0.5, "dropout_input_per": per, "bias": bias}
    options |= {"bidirectional": both_ways}
    layer = randomised(KINDS[kind](M, SIZE, **options))
    double = KINDS[kind](M, SIZE, dtype=torch.float64, **options)
    double.load_state_dict(layer.state_dict())
    symbols = torch.randint(M, (T, 9))
    vectors = torch.nn.functional.one_hot(symbols, M)
    runs = []
    for module, x in ((layer, symbols), (layer, vectors.float()), (double, vectors.double())):
        torch.manual_seed(4)
        runs.append(module(x)[0])
    assert_accurate(runs[0], reference=runs[1], truth=runs[2])


@each_kind
def test_output_mask_is_fixed_over_time_and_spares_the_state(kind):
    layer = randomised(KINDS[kind](M, SIZE, dropout_output=0.5))
    x = signed(T, 200, M)
    y, state = layer(x)
    y_whole, state_whole = layer.eval()(x)
    kept = y != 0
    assert torch.equal(y[kept], 2 * y_whole[kept])
    assert torch.equal(kept, kept[:1].expand_as(kept))
    assert_frequency(kept[0], 0.5)
    whole = state_whole if kind == "LSTM" else (state_whole,)
    for got, expected in zip(state if kind == "LSTM" else (state,), whole, strict=True):
        assert torch.equal(got, expected)


@each_kind
def test_dropout_between_layers_is_torchs(kind):
    """On every layer's outputs but the last, drawn anew at every step."""
    layer = randomised(KINDS[kind](M, SIZE, 2, dropout=0.5))
    first, second = (randomised(KINDS[kind](m, SIZE)) for m in (M, SIZE))
    first.cells[0].load_state_dict(layer.cells[0].state_dict())
    second.cells[0].load_state_dict(layer.cells[1].state_dict())
    x = signed(T, B, M)
    torch.manual_seed(6)
    got, _ = layer(x)
    torch.manual_seed(6)
    expected, _ = second(torch.nn.functional.dropout(first(x)[0], 0.5))
    assert torch.equal(got, expected)


@each_kind
def test_zoneout_keeps_units_at_random(kind, monkeypatch):
    layer = randomised(KINDS[kind](M, SIZE, zoneout=0.3))
    calls = record_scans(monkeypatch)
    start = signed(1, 200, SIZE)
    given = (start, signed(1, 200, SIZE)) if kind == "LSTM" else start
    y, _ = layer(signed(T, 200, M), given)
    kept = y == torch.cat((start, y[:-1]))
    assert torch.equal(kept, calls[0].hold == 1)
    assert_frequency(kept, 0.3)
    if kind == "LSTM":
        assert_frequency(calls[0].hold_cell == 1, 0.3)
        assert not torch.equal(calls[0].hold, calls[0].hold_cell)


@each_kind
def test_zoneout_in_evaluation_is_the_mean_of_training(kind):
    """Exactly so for one step, for which the mean is over independent draws."""
    layer = randomised(KINDS[kind](M, SIZE, zoneout=0.3))
    x, start = signed(1, 1, M), signed(1, 1, SIZE)
    count = 4000
    spread = start.expand(-1, count, -1).contiguous()
    given = (spread, spread) if kind == "LSTM" else spread
    y, state = layer(x.expand(-1, count, -1).contiguous(), given)
    layer.eval()
    y_mean, mean = layer(x, (start, start) if kind == "LSTM" else start)
    assert_mean(y[0], y_mean[0, 0])
    if kind == "LSTM":
        assert_mean(state[1][0], mean[1][0, 0])


def test_gradients_are_those_of_the_masks_drawn(monkeypatch):
    """The backward uses the forward's masks: finite differences under one seed."""
    for kind in KINDS.values():
        layer = kind(2, 4, matrix=passnet.LowRank(2), dropout_state=0.5, zoneout=0.3).double()
        randomised(layer)

        def outputs(x, layer=layer):
            torch.manual_seed(3)
            return layer(x)[0]

        assert torch.autograd.gradcheck(outputs, signed(3, 2, 2).double().requires_grad_())


RATES = ("dropout", "dropout_state", "dropout_input", "zoneout")


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        *((name, rate) for name in RATES for rate in (-0.1, 1.5, float("nan"))),
        *((name, 1.0) for name in RATES if name != "dropout"),
    ],
)
def test_rates_are_probabilities(name, rate):
    with pytest.raises(ValueError, match=rf"{name}=.*probability, at least 0"):
        passnet.GRU(M, SIZE, **{name: rate})
    with pytest.raises(TypeError, match=f"{name} must be a number, got 'half'"):
        passnet.LSTM(M, SIZE, **{name: "half"})
