"""Integer inputs are symbols: the same as one-hot vectors, looked up instead of multiplied."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_all_accurate
from layer_twins import doubled, randomised, signed
from torch.nn.functional import one_hot

import passnet

M, N, T, B = 5, 8, 6, 4
LAYERS = {
    "GRU": passnet.GRU,
    "LSTM": passnet.LSTM,
    "normed": lambda *a, **k: passnet.GRU(*a, weight_norm=True, **k),
    "no bias": lambda *a, **k: passnet.LSTM(*a, bias=False, **k),
    "uRNN": lambda m, n, layers=1, **k: passnet.UnitaryRNN(m, n, **k),
}
each_layer = pytest.mark.parametrize("kind", LAYERS)


def run(module, x, lengths=None) -> dict[str, torch.Tensor]:
    y, state = module(x, lengths=lengths)
    parts = state if isinstance(state, tuple) else (state,)
    named = dict(module.named_parameters())
    grads = torch.autograd.grad(y.square().sum(), list(named.values()))
    found = {"output": y.detach()} | {f"state {k}": p.detach() for k, p in enumerate(parts)}
    return found | dict(zip(named, grads, strict=True))


@each_layer
@pytest.mark.parametrize("lengths", [None, [6, 2, 3, 1]], ids=["whole", "lengths"])
def test_symbols_are_one_hot_vectors(kind, lengths):
    module = randomised(
        LAYERS[kind](M, N, 2, matrix=passnet.LowRank(3)) if kind != "uRNN" else LAYERS[kind](M, N)
    )
    symbols = torch.randint(M, (T, B))
    vectors = one_hot(symbols, M)
    assert_all_accurate(
        run(module, symbols, lengths),
        reference=run(module, vectors.float(), lengths),
        truth=run(doubled(module), vectors.double(), lengths),
    )


@each_layer
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_any_integer_type_and_shape(kind, dtype):
    module = randomised(LAYERS[kind](M, N, batch_first=True))
    symbols = torch.randint(M, (B, T)).to(dtype)
    y, _ = module(symbols)
    expected, _ = module(symbols.long())
    assert torch.equal(y, expected)
    alone, _ = module(symbols[0])
    assert alone.shape == y.shape[1:]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_any_integer_type_under_dropout(dtype):
    module = passnet.GRU(M, N, dropout_input=0.5)
    assert module(torch.randint(M, (T, B)).to(dtype))[0].shape == (T, B, N)


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_packed_symbols(layer):
    module = randomised(layer(M, N, 2))
    symbols, lengths = torch.randint(M, (T, B)), torch.tensor([2, 6, 1, 3])
    pack = torch.nn.utils.rnn.pack_padded_sequence
    packed, _ = module(pack(symbols, lengths, enforce_sorted=False))
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(packed)
    assert torch.equal(padded, module(symbols, lengths=lengths)[0])


@each_layer
@pytest.mark.parametrize("wrong", [-1, M])
def test_a_symbol_outside_the_alphabet_is_named(kind, wrong):
    symbols = torch.randint(M, (T, B))
    symbols[2, 1] = wrong
    with pytest.raises(ValueError, match=rf"symbol {wrong}: expected 0 to {M - 1}"):
        LAYERS[kind](M, N)(symbols)
    with pytest.raises(TypeError, match=r"torch\.bool: give real features, or symbols"):
        LAYERS[kind](M, N)(signed(T, B) > 0)


@each_layer
@pytest.mark.parametrize("padding", [-1, M])
def test_padding_beyond_the_lengths_may_be_any_number(kind, padding):
    symbols, lengths = torch.randint(M, (T, B)), [T, *[1] * (B - 1)]
    module = LAYERS[kind](M, N)
    expected = module(symbols, lengths=lengths)
    symbols[1:, 1:] = padding
    torch.testing.assert_close(module(symbols, lengths=lengths), expected, rtol=0, atol=0)
