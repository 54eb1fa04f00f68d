"""Sequences of different lengths: packed, padded with lengths, and each one alone."""

from __future__ import annotations

import itertools

import numpy
import pytest
import torch
from accuracy import assert_all_accurate
from layer_twins import doubled, randomised, signed
from structures import MAIN, SIZE, STRUCTURES
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import passnet

M, T, B = 3, 6, 4
LENGTHS = [3, 6, 1, 4]
KINDS = {
    "GRU before": lambda *a, **k: passnet.GRU(*a, reset="before", **k),
    "GRU after": passnet.GRU,
    "LSTM": passnet.LSTM,
}
grid = pytest.mark.parametrize(
    ("kind", "layers", "bidirectional"), list(itertools.product(KINDS, (1, 2), (False, True)))
)


def parts_of(state) -> tuple[torch.Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


def build(kind, layers=1, bidirectional=False, **options):
    options = {"matrix": passnet.LowRankPlusDiagonal(3), "learn_initial_state": True} | options
    return randomised(KINDS[kind](M, SIZE, layers, bidirectional=bidirectional, **options))


def run(layer, x, how: str) -> dict[str, torch.Tensor]:
    """Outputs, final states and gradients of input and parameters, all padded."""
    x = x.clone().requires_grad_()
    if how == "lengths":
        y, state = layer(x, lengths=torch.tensor(LENGTHS))
    elif how == "packed":
        packed = pack_padded_sequence(x, torch.tensor(LENGTHS), enforce_sorted=False)
        y, state = layer(packed)
        y, ends = pad_packed_sequence(y)
        assert ends.tolist() == LENGTHS
    else:
        outputs, states = [], []
        for index, length in enumerate(LENGTHS):
            output, state = layer(x[:length, index : index + 1])
            pad = output.new_zeros(T - length, *output.shape[1:])
            outputs.append(torch.cat((output, pad)))
            states.append(parts_of(state))
        y = torch.cat(outputs, 1)
        state = tuple(torch.cat(part, 1) for part in zip(*states, strict=True))
    found = {"output": y} | {f"state {k}": part for k, part in enumerate(parts_of(state))}
    generator = torch.Generator().manual_seed(2)
    loss = 0
    for value in found.values():
        weight = 0.5 + torch.rand(value.shape, generator=generator)
        loss = loss + (weight.to(value.dtype) * value).sum()
    names = ["input", *(name for name, _ in layer.named_parameters())]
    grads = torch.autograd.grad(loss, [x, *layer.parameters()])
    found |= {f"gradient of {name}": g for name, g in zip(names, grads, strict=True)}
    return {name: value.detach() for name, value in found.items()}


@grid
def test_packed_lengths_and_alone_agree(kind, layers, bidirectional):
    layer = build(kind, layers, bidirectional)
    x = signed(T, B, M)
    alone = {"reference": run(layer, x, "alone"), "truth": run(doubled(layer), x.double(), "alone")}
    lengths, packed = run(layer, x, "lengths"), run(layer, x, "packed")
    assert_all_accurate(lengths, **alone)
    assert_all_accurate(packed, **alone)
    for name, value in lengths.items():
        if not name.startswith("gradient"):
            assert torch.equal(value, packed[name]), name


@pytest.mark.parametrize("spec", [STRUCTURES[name] for name in MAIN], ids=MAIN)
@pytest.mark.parametrize("kind", KINDS)
def test_every_structure_takes_lengths(kind, spec):
    layer = build(kind, matrix=spec)
    x = signed(T, B, M)
    assert_all_accurate(
        run(layer, x, "lengths"),
        reference=run(layer, x, "alone"),
        truth=run(doubled(layer), x.double(), "alone"),
    )


@grid
def test_nothing_leaks_from_the_padding(kind, layers, bidirectional):
    layer = build(kind, layers, bidirectional)
    x = signed(T, B, M).requires_grad_()
    late = torch.arange(T)[:, None] >= torch.tensor(LENGTHS)
    y, state = layer(x, lengths=LENGTHS)
    assert torch.equal(y[late], torch.zeros_like(y[late]))
    loss = y.sum() + sum(part.sum() for part in parts_of(state))
    loss.backward()
    assert torch.equal(x.grad[late], torch.zeros_like(x.grad[late]))
    assert (x.grad[~late] != 0).all()
    x = x.detach()
    y, state = layer(x, lengths=LENGTHS)
    other = torch.where(late.unsqueeze(-1), 1e3 * signed(T, B, M), x)
    y_other, state_other = layer(other, lengths=LENGTHS)
    assert torch.equal(y, y_other)
    for a, b in zip(parts_of(state), parts_of(state_other), strict=True):
        assert torch.equal(a, b)


@grid
@pytest.mark.parametrize("rubbish", [float("nan"), float("inf")])
def test_padding_may_hold_anything(kind, layers, bidirectional, rubbish):
    layer = build(kind, layers, bidirectional)
    x = signed(T, B, M)
    late = torch.arange(T)[:, None] >= torch.tensor(LENGTHS)
    clean = run(layer, x.masked_fill(late.unsqueeze(-1), 0), "lengths")
    dirty = run(layer, x.masked_fill(late.unsqueeze(-1), rubbish), "lengths")
    for name, value in clean.items():
        assert torch.equal(value, dirty[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_the_final_state_is_the_last_real_one(kind):
    layer = build(kind, 2)
    y, state = layer(signed(T, B, M), lengths=LENGTHS)
    ends = torch.tensor(LENGTHS) - 1
    assert torch.equal(parts_of(state)[0][-1], y[ends, torch.arange(B)])


@grid
def test_what_is_real_is_the_same_without_zeros_behind_it(kind, layers, bidirectional):
    layer, x = build(kind, layers, bidirectional), signed(T, B, M)
    real = (torch.arange(T)[:, None] < torch.tensor(LENGTHS)).unsqueeze(-1)
    found = []
    for zero_padding in (True, False):
        y, state = layer(x, lengths=torch.tensor(LENGTHS), zero_padding=zero_padding)
        assert zero_padding == bool((y[~real.squeeze(-1)] == 0).all())
        y = torch.where(real, y, 0)
        grads = torch.autograd.grad(y.square().sum(), list(layer.parameters()))
        found.append([y, *parts_of(state), *grads])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("kind", KINDS)
def test_full_lengths_change_nothing(kind):
    layer = build(kind, 2, True)
    x = signed(T, B, M)
    (y, state), (y_full, state_full) = layer(x), layer(x, lengths=[T] * B)
    assert torch.equal(y, y_full)
    for a, b in zip(parts_of(state), parts_of(state_full), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint16", "uint32", "uint64"])
def test_lengths_of_every_whole_type(kind, dtype):
    layer, x = build(kind), signed(T, 2, M)
    expected, _ = layer(x, lengths=[T, 1])
    array = numpy.array([T, 1], dtype=dtype)
    for lengths in (array, torch.from_numpy(array)):
        assert torch.equal(layer(x, lengths=lengths)[0], expected)
    with pytest.raises(ValueError, match=f"lengths contains {T + 1}: each must be from 1 to {T}"):
        layer(x, lengths=array + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_of_lengths_under_another_default_device(kind):
    layer, x = build(kind, 1), signed(T, 2, M)
    expected, _ = layer(x, lengths=torch.tensor([T, 1]))
    with torch.device("meta"):
        found, _ = layer(x, lengths=[T, 1])
    assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_batch_first_symbols_and_given_starts_with_lengths(kind):
    layer, twin = build(kind, 2), build(kind, 2, batch_first=True)
    twin.load_state_dict(layer.state_dict())
    symbols = torch.randint(M, (T, B))
    start = layer(signed(T, B, M))[1]
    y, state = layer(symbols, start, lengths=LENGTHS)
    y_first, state_first = twin(symbols.T, start, lengths=LENGTHS)
    assert torch.equal(y, y_first.transpose(0, 1))
    for a, b in zip(parts_of(state), parts_of(state_first), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match="lengths given with a PackedSequence"):
        layer(pack_padded_sequence(signed(T, B, M), LENGTHS, enforce_sorted=False), lengths=[1])


@pytest.mark.parametrize("kind", KINDS)
def test_zoneout_and_lengths_together(kind):
    """Held past the end, mixed before it: each sequence alone says how."""
    layer = build(kind, zoneout=0.3).eval()
    x = signed(T, B, M)
    assert_all_accurate(
        run(layer, x, "lengths"),
        reference=run(layer, x, "alone"),
        truth=run(doubled(layer), x.double(), "alone"),
    )
    layer.train()
    y, state = layer(x, lengths=LENGTHS)
    assert torch.equal(parts_of(state)[0][0], y[torch.tensor(LENGTHS) - 1, torch.arange(B)])
