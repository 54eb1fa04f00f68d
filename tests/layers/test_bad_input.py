"""Bad input raises a sentence: what was given, what was expected, what to do."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from layer_twins import signed
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence

import passnet

M, N, T, B = 3, 6, 5, 4
each_layer = pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])


def raises(kind: type[Exception], *parts: str):
    """The message holds every part, in order."""
    return pytest.raises(kind, match="(?s)" + ".*".join(re.escape(part) for part in parts))


@each_layer
@pytest.mark.parametrize("rank", [0, -1, N + 1])
@pytest.mark.parametrize(
    "spec",
    [
        passnet.LowRank,
        passnet.LowRankPlusDiagonal,
        lambda rank: passnet.BlockDiagonalPlusLowRank(2, rank),
    ],
)
def test_rank_outside_the_state(layer, spec, rank):
    with raises(ValueError, f"rank={rank}", f"state of {N} units", f"choose 1 <= rank <= {N}"):
        layer(M, N, matrix=spec(rank))
    with raises(ValueError, f"rank={rank}", f"choose 1 <= rank <= {N}"):
        passnet.Highway(N, matrix=spec(rank))


@pytest.mark.parametrize("rank", [2.0, "2", True, None])
def test_rank_that_is_no_whole_number(rank):
    with raises(TypeError, "rank must be an int", repr(rank)):
        passnet.GRU(M, N, matrix=passnet.LowRank(rank))


@pytest.mark.parametrize(("blocks", "hint"), [(4, "such as 3"), (0, "such as 1"), (7, "such as 6")])
def test_blocks_that_do_not_divide_the_state(blocks, hint):
    for spec in (passnet.BlockDiagonal(blocks), passnet.BlockDiagonalPlusLowRank(blocks, 2)):
        with raises(ValueError, f"blocks={blocks} does not divide", f"{N} units", hint):
            passnet.GRU(M, N, matrix=spec)
    with raises(TypeError, "blocks must be an int", "'two'"):
        passnet.LSTM(M, N, matrix=passnet.BlockDiagonal("two"))


@each_layer
@pytest.mark.parametrize(
    ("wrong", "hint"), [(24, "24"), ("low_rank", "'low_rank'"), (passnet.LowRank, "LowRank(...)")]
)
def test_matrix_that_is_no_structure(layer, wrong, hint):
    with raises(TypeError, "matrix=", "not a structure: pass one of Dense, LowRank", ""):
        layer(M, N, matrix=wrong)
    with raises(TypeError, hint):
        layer(M, N, matrix=wrong)


@each_layer
@pytest.mark.parametrize("name", ["input_size", "hidden_size", "num_layers"])
def test_sizes(layer, name):
    good = {"input_size": M, "hidden_size": N, "num_layers": 1}
    for wrong in (0, -3):
        with raises(ValueError, f"{name}={wrong}: give 1 or more"):
            layer(**good | {name: wrong})
    for wrong in (2.5, "2", True):
        with raises(TypeError, f"{name} must be an int, got {wrong!r}"):
            layer(**good | {name: wrong})


@pytest.mark.parametrize(
    ("options", "kind", "parts"),
    [
        ({"reset": "during"}, ValueError, ("reset='during': choose 'after' or 'before'",)),
        ({"init": "zeros"}, ValueError, ("init='zeros' is unknown: choose one of 'glorot'",)),
        ({"backend": "gpu"}, ValueError, ("backend='gpu' is unknown", "'auto'", "'reference'")),
        ({"max_row_norm": 0.0}, ValueError, ("max_row_norm=0.0: give a positive number",)),
        ({"max_row_norm": float("nan")}, ValueError, ("max_row_norm=nan",)),
        ({"dropout_input_per": "word"}, ValueError, ("'word': choose 'feature' or 'step'",)),
        ({"carry_bias": "large"}, TypeError, ("carry_bias='large'", f"a vector of {N}")),
        ({"carry_bias": float("nan")}, TypeError, ("carry_bias=nan",)),
        ({"carry_bias": torch.zeros(2)}, ValueError, ("shape (2,)", f"a vector of {N}")),
        ({"carry_bias": 4.0, "bias": False}, ValueError, ("needs biases: drop bias=False",)),
        (
            {"reset": "before", "recurrent_bias": True},
            ValueError,
            ("recurrent_bias=True with reset='before'", "leave it out"),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_constructor_words(options, kind, parts):
    with raises(kind, *parts):
        passnet.GRU(M, N, **options)


def test_chrono_needs_a_span():
    with raises(ValueError, "t_max", "2"):
        passnet.Chrono(2)


@each_layer
@pytest.mark.parametrize(
    ("x", "kind", "parts"),
    [
        (signed(T, B, M + 1), ValueError, (f"{M + 1} features", f"input_size={M}", "batch_first")),
        (signed(T), ValueError, (f"shape ({T},)", "expected [T, B, m] or [T, m]")),
        (signed(T, B, M, 1), ValueError, (f"shape ({T}, {B}, {M}, 1)", "expected [T, B, m]")),
        (
            torch.zeros(T, B, M, dtype=torch.int64),
            ValueError,
            ("whole numbers are symbols",),
        ),
        (torch.zeros(T, B, M, dtype=torch.complex64), TypeError, ("complex64", "real features")),
        (signed(0, B, M), ValueError, (f"0 steps of {B} sequences", "at least one step")),
        ([[1.0]], TypeError, ("the input is a list", "a tensor or PackedSequence")),
        (signed(T, B, M).double(), ValueError, ("torch.float64", "torch.float32", ".to(")),
        (signed(T, B, M).half(), ValueError, ("torch.float16", "layer torch.float32", "autocast")),
        (torch.empty(T, B, M, device="meta"), ValueError, ("on meta", "layer on cpu", ".to(")),
    ],
    ids=lambda value: "",
)
def test_inputs(layer, x, kind, parts):
    with raises(kind, *parts):
        layer(M, N)(x)


@each_layer
@pytest.mark.parametrize(
    ("lengths", "kind", "parts"),
    [
        ([float("nan")] * B, TypeError, ("torch.float32", "whole numbers", "no missing values")),
        (torch.tensor([3.0, 2, 1, 1]), TypeError, ("torch.float32: give whole numbers",)),
        (torch.tensor([True] * B), TypeError, ("torch.bool",)),
        ([3, 0, 1, 2], ValueError, ("contains 0", f"from 1 to {T}", "leave empty sequences out")),
        ([3, -2, 1, 2], ValueError, ("contains -2", f"from 1 to {T}")),
        (
            [3, T + 1, 1, 2],
            ValueError,
            (f"contains {T + 1}", f"from 1 to {T}, the number of steps"),
        ),
        ([3, 2], ValueError, ("shape (2,)", f"expected ({B},), one for each sequence")),
        ([], ValueError, ("shape (0,)", f"expected ({B},), one for each sequence")),
        ([[3, 2, 1, 1]], ValueError, ("shape (1, 4)", f"expected ({B},)")),
    ],
    ids=lambda value: "",
)
def test_lengths(layer, lengths, kind, parts):
    with raises(kind, *parts):
        layer(M, N)(signed(T, B, M), lengths=lengths)


@each_layer
def test_lengths_of_what_has_its_own(layer):
    with raises(ValueError, "lengths needs a batch"):
        layer(M, N)(signed(T, M), lengths=[3])
    packed = pack_padded_sequence(signed(T, B, M), [5, 4, 3, 1])
    with raises(ValueError, "lengths given with a PackedSequence", "drop one"):
        layer(M, N)(packed, lengths=[5, 4, 3, 1])


@each_layer
def test_packing_that_does_not_shrink(layer):
    packed = PackedSequence(signed(5, M), torch.tensor([2, 3]))
    with raises(ValueError, "batch_sizes [2, 3] do not shrink", "enforce_sorted=False"):
        layer(M, N)(packed)
    narrow = pack_sequence([signed(3, M + 1), signed(2, M + 1)])
    with raises(ValueError, f"{M + 1} features", f"input_size={M}"):
        layer(M, N)(narrow)


def start(layer, *shape, dtype=torch.float32, device="cpu"):
    state = torch.zeros(*shape, dtype=dtype, device=device)
    return (state, state) if layer is passnet.LSTM else state


@each_layer
@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"shape": (1, B + 1, N)}, (f"(1, {B + 1}, {N})", f"expected (1, {B}, {N})", "batch")),
        ({"shape": (2, B, N)}, (f"(2, {B}, {N})", f"expected (1, {B}, {N})")),
        ({"shape": (1, B, N + 1)}, (f"(1, {B}, {N + 1})", f"expected (1, {B}, {N})")),
        ({"shape": (1, N)}, (f"(1, {N})", f"expected (1, {B}, {N})")),
        (
            {"shape": (1, B, N), "dtype": torch.float64},
            ("torch.float64", "computes in torch.float32"),
        ),
        ({"shape": (1, B, N), "device": "meta"}, ("on meta", "layer on cpu", ".to(")),
    ],
    ids=lambda value: "",
)
def test_initial_states(layer, given, parts):
    given = dict(given)
    with raises(ValueError, "the initial hidden state", *parts):
        layer(M, N)(signed(T, B, M), start(layer, *given.pop("shape"), **given))


@each_layer
def test_unbatched_initial_states(layer):
    with raises(ValueError, f"shape (1, {B}, {N})", f"expected (1, {N}) (layers, units)"):
        layer(M, N)(signed(T, M), start(layer, 1, B, N))


def test_states_of_the_wrong_kind():
    zeros = torch.zeros(1, B, N)
    with raises(TypeError, "a GRU takes one tensor"):
        passnet.GRU(M, N)(signed(T, B, M), (zeros, zeros))
    for wrong in (zeros, (zeros,), (zeros, zeros, zeros), (None, None)):
        with raises(TypeError, "a pair (hidden, cell) of tensors"):
            passnet.LSTM(M, N)(signed(T, B, M), wrong)
    with raises(ValueError, "the initial cell state has shape (1, 9, 6)", "expected (1, 4, 6)"):
        passnet.LSTM(M, N)(signed(T, B, M), (zeros, torch.zeros(1, 9, N)))


@each_layer
def test_lengths_in_the_place_of_the_state(layer):
    lengths = [T] * B
    with raises(TypeError, "is a list", "numbers of steps go in lengths="):
        layer(M, N)(signed(T, B, M), lengths)
    kind = ValueError if layer is passnet.GRU else TypeError
    with raises(kind, "numbers of steps go in lengths="):
        layer(M, N)(signed(T, B, M), torch.tensor(lengths))


def test_matrices_that_are_not_there():
    module = passnet.GRU(M, N, 2)
    with raises(ValueError, "no gate 'forget'", "'reset', 'carry', 'candidate'"):
        module.recurrent_matrix("forget")
    with raises(ValueError, "no gate 'reset'", "'transform', 'carry', 'candidate', 'output'"):
        passnet.LSTM(M, N).recurrent_matrix("reset")
    with raises(IndexError, "layer=2", "layers 0 to 1"):
        module.recurrent_matrix("carry", layer=2)
    with raises(ValueError, "reverse=True", "not bidirectional"):
        module.recurrent_matrix("carry", reverse=True)


@pytest.mark.parametrize(
    ("state", "parts"),
    [
        (torch.zeros(B, N), ("torch.float32", "complex")),
        (torch.zeros(B, N + 1, dtype=torch.complex64), (f"({B}, {N + 1})", f"({B}, {N})")),
        (torch.zeros(B + 1, N, dtype=torch.complex64), (f"({B + 1}, {N})", f"({B}, {N})")),
        (torch.zeros(N, dtype=torch.complex64), (f"({N},)", f"({B}, {N})")),
        (torch.zeros(B, N, dtype=torch.complex128), ("complex128", "complex64")),
    ],
    ids=lambda value: "",
)
def test_unitary_states(state, parts):
    with raises(ValueError, "the initial state is", *parts):
        passnet.UnitaryRNN(M, N)(signed(T, B, M), state)


@pytest.mark.parametrize(
    ("options", "kind", "parts"),
    [
        ({"size": 0}, ValueError, ("size=0: give 1 or more",)),
        ({"activation": "gelu"}, ValueError, ("'gelu': choose 'relu' or 'tanh'",)),
        ({"dropout": 1.5}, ValueError, ("dropout=1.5", "probability")),
        ({"dropout_bottleneck": 0.3}, ValueError, ("needs a bottleneck", "Dense()", "LowRank")),
        ({"max_row_norm": -1.0}, ValueError, ("max_row_norm=-1.0: give a positive number",)),
        ({"matrix": "dense"}, TypeError, ("'dense' is not a structure",)),
    ],
    ids=lambda value: "",
)
def test_highway_arguments(options, kind, parts):
    with raises(kind, *parts):
        passnet.Highway(**{"size": N} | options)


def test_highway_inputs():
    module = passnet.Highway(N)
    with raises(ValueError, f"shape (4, {N + 1})", f"last axis must be {N}"):
        module(signed(4, N + 1))
    with raises(ValueError, "torch.float64", "torch.float32", ".to("):
        module(signed(4, N).double())
    with raises(ValueError, "no gate 'carry'", "'candidate' or 'transform'") as _:
        module.recurrent_matrix("carry")


@each_layer
@pytest.mark.parametrize("wrong", [0.5, "no", None, 1])
def test_flags_are_true_or_false(layer, wrong):
    names = ["bias", "batch_first", "bidirectional", "learn_initial_state", "weight_norm"]
    for name in names:
        with pytest.raises(TypeError, match=rf"^{name}={wrong!r}: give True or False"):
            layer(M, N, **{name: wrong})
    with raises(TypeError, "bias=0.5"):
        layer(M, N, 2, 0.5)  # dropout stands further back


def test_flags_of_the_other_layers_are_too():
    with raises(TypeError, "recurrent_bias='no': give True or False"):
        passnet.GRU(M, N, recurrent_bias="no")
    with raises(TypeError, "batch_norm=1: give True or False"):
        passnet.Highway(N, batch_norm=1)
    with raises(TypeError, "batch_first='no': give True or False"):
        passnet.UnitaryRNN(M, N, batch_first="no")
    with raises(ValueError, "max_row_norm=True"):
        passnet.GRU(M, N, max_row_norm=True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int32, "float32"])
def test_weights_are_real(dtype):
    for layer in (passnet.GRU, passnet.LSTM):
        with raises(TypeError, f"dtype={dtype!r}", "torch.float32"):
            layer(M, N, dtype=dtype)
    with raises(TypeError, f"dtype={dtype!r}", "torch.float32"):
        passnet.Highway(N, dtype=dtype)


@pytest.mark.parametrize("shape", [(1, 4, 5), ()])
def test_a_step_says_what_it_takes(shape):
    layer = passnet.GRU(5, 7).eval()
    with raises(ValueError, "the input of a step has shape", "[B, m] or [m]"):
        layer.step(torch.randn(shape))
    with raises(TypeError, "the input of a step is a list", "give a tensor"):
        layer.step([1.0] * 5, torch.zeros(1, 1, 7))


def test_weights_of_a_dense_layer_say_where_they_fit():
    with raises(ValueError, "dense GRU, without matrix=", "passnet.compress(layer, LowRank(rank=3"):
        passnet.GRU.from_torch(torch.nn.GRU(5, 7), matrix=passnet.LowRank(3))
    for initial in (True, False):
        with raises(ValueError, "has no cells.0.input_weight_scale", "leave out"):
            passnet.GRU.from_torch(
                torch.nn.GRU(5, 7), weight_norm=True, learn_initial_state=initial
            )
    with raises(ValueError, "these weights have biases", "leave bias=False out"):
        passnet.GRU(5, 7, bias=False).load_state_dict(torch.nn.GRU(5, 7).state_dict())


def test_dropout_between_layers_of_which_there_is_one():
    with pytest.warns(UserWarning, match="acts between layers"):
        passnet.LSTM(5, 7, dropout=0.5)


@pytest.mark.parametrize("rows", [0, 1])
def test_batch_norm_needs_a_batch(rows):
    layer = passnet.Highway(4, batch_norm=True)
    before = copy.deepcopy(layer.state_dict())
    with raises(ValueError, f"a batch of {rows}", "two or more"):
        layer(torch.randn(rows, 4))
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    layer.eval()(torch.randn(rows, 4))


def test_a_nested_tensor_is_named():
    nested = torch.nested.nested_tensor([torch.randn(3, 5), torch.randn(2, 5)])
    with raises(TypeError, "nested tensor", "to_padded_tensor"):
        passnet.GRU(5, 7)(nested)


def test_lengths_that_are_no_numbers_are_shown():
    with raises(TypeError, "lengths=[1, None, 2]", "whole number"):
        passnet.GRU(5, 7)(torch.randn(3, 3, 5), lengths=[1, None, 2])


@pytest.mark.parametrize("spec", [passnet.LowRank, passnet.LowRankPlusDiagonal])
def test_tied_is_true_or_false(spec):
    with raises(TypeError, "tied", "'no'"):
        passnet.GRU(5, 7, matrix=spec(3, tied="no"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_complex_units_refuse_half_precision_when_they_are_called(dtype):
    rnn = passnet.UnitaryRNN(5, 7).to(dtype)
    with raises(ValueError, str(dtype), "torch.float32 or torch.float64"):
        rnn(torch.randn(4, 2, 5, dtype=dtype))


def test_a_sparse_tensor_is_named():
    with raises(TypeError, "the input is torch.sparse_coo", ".to_dense()"):
        passnet.GRU(5, 7)(torch.ones(3, 2, 5).to_sparse())
