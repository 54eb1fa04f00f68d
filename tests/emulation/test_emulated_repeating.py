"""A layer's calls made over and over: the short way gives what the long way does, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from spying import forget_calls, record_tapes, the_long_way
from torch import nn
from torch.nn.utils import prune

import passnet
from passnet.equations import STRUCTURES
from passnet.ops import gru_backends, lstm_backends
from passnet.ops.cuda import engine
from passnet.ops.cuda.tape import Tape

LOW, BOTH = passnet.LowRank, passnet.LowRankPlusDiagonal
STEPS, BATCH, FEATURES = 5, 2, 3
LAYERS = {
    "reset after": (passnet.GRU, 24, {"matrix": BOTH(4)}),
    "reset before": (passnet.GRU, 24, {"matrix": BOTH(4), "reset": "before"}),
    "lstm": (passnet.LSTM, 24, {"matrix": BOTH(4)}),
    "tied": (passnet.GRU, 24, {"matrix": LOW(5, tied=True), "bias": False}),
    "dense": (passnet.GRU, 20, {"reset": "before"}),
    "batch first": (passnet.LSTM, 24, {"matrix": BOTH(4), "batch_first": True}),
    "multiplied out": (passnet.GRU, 64, {"matrix": BOTH(40)}),
}


@pytest.fixture
def used(monkeypatch, emulator) -> list[Tape]:
    """The tapes that were played, on an emulated chip."""
    chip = emulator()
    monkeypatch.setattr(engine, "refuses_device", lambda *_: None)
    for backend in (*gru_backends(), *lstm_backends()):
        if backend.name == "cuda":
            monkeypatch.setattr(backend._engine, "_chip_of", lambda _: chip)
    forget_calls(monkeypatch)
    return record_tapes(monkeypatch)


def made(name):
    kind, units, options = LAYERS[name]
    torch.manual_seed(0)
    return kind(FEATURES, units, backend="cuda", **options)


def of_all(output, *state):
    """A loss in which every output counts, and the last state by itself."""
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(part.shape, generator=generator) for part in (output, *state)]
    return sum((p * w).sum() for p, w in zip((output, *state), weights, strict=True))


def called(rnn, x):
    output, state = rnn(x)
    return output, *(state if isinstance(state, tuple) else (state,))


def loss(rnn, x):
    return of_all(*called(rnn, x))


def numbers(rnn, x, of=of_all):
    outputs = called(rnn, x)
    grads = torch.autograd.grad(of(*outputs), list(rnn.parameters()))
    return [*[part.detach() for part in outputs], *grads]


def change(rnn):
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.mul_(1.25).add_(0.01)


def same(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.parametrize("name", LAYERS)
def test_every_call_is_what_the_long_way_gives(used, name):
    rnn = made(name)
    for call in range(4):
        x = torch.randn(STEPS, BATCH, FEATURES)
        found, played = numbers(rnn, x), len(used)
        assert played == (0, 0, 2, 4)[call], "once the long way, once watched"
        with the_long_way():
            assert same(found, numbers(rnn, x))
        assert len(used) == played
        change(rnn)


def of_the_output(output, *state):
    return (output**2).sum()


def of_the_sum(output, *state):
    """Whose gradient is one number in memory."""
    return output.sum()


def of_the_last_state(output, *state):
    return sum((part**2).sum() for part in state)


def of_the_last_part(output, *state):
    """The cell, in an LSTM: of its hidden state nothing is used."""
    return (state[-1] ** 2).sum()


@pytest.mark.parametrize("name", ["reset after", "lstm"])
@pytest.mark.parametrize("of", [of_the_output, of_the_last_state, of_the_sum])
def test_outputs_that_nothing_uses(used, name, of):
    rnn = made(name)
    for _ in range(3):
        x = torch.randn(STEPS, BATCH, FEATURES)
        found = numbers(rnn, x, of)
        with the_long_way():
            assert same(found, numbers(rnn, x, of))
    assert len(used) == 2


def test_an_lstm_of_which_other_parts_are_used_each_time(used):
    rnn = made("lstm")
    for _ in range(3):
        for of in (of_the_last_part, of_the_output, of_all):
            x = torch.randn(STEPS, BATCH, FEATURES)
            found = numbers(rnn, x, of)
            with the_long_way():
                assert same(found, numbers(rnn, x, of))
    assert used


def test_a_graph_that_is_retained(used):
    rnn, x = made("reset after"), torch.randn(STEPS, BATCH, FEATURES)
    for _ in range(3):
        numbers(rnn, x)
    found = loss(rnn, x)
    first = torch.autograd.grad(found, list(rnn.parameters()), retain_graph=True)
    played = len(used)
    assert same(first, torch.autograd.grad(found, list(rnn.parameters())))
    assert len(used) == played + 1, "the backward; what it wrote over is computed the long way"


def test_two_calls_before_their_backward(used):
    rnn = made("reset after")
    one, other = (torch.randn(STEPS, BATCH, FEATURES) for _ in range(2))

    def both():
        found = loss(rnn, one) * loss(rnn, other)
        return [found.detach(), *torch.autograd.grad(found, list(rnn.parameters()))]

    for _ in range(3):
        found = both()
    assert used
    with the_long_way():
        assert same(found, both())


def test_what_lies_otherwise_is_not_what_is_remembered(used):
    rnn, x = made("reset after"), torch.randn(STEPS, BATCH, FEATURES)
    beside = torch.randn(x.numel() + 1)[1:].view_as(x)
    turned = torch.randn(BATCH, STEPS, FEATURES).transpose(0, 1)
    for given in (beside, beside, turned, x, x, beside, turned, x):
        found, played = numbers(rnn, given), len(used)
        with the_long_way():
            assert same(found, numbers(rnn, given))
    assert played == 4, "x, the second and the third time"


def test_inputs_that_are_not_what_lies_there(used):
    rnn = made("reset after")
    for _ in range(3):
        x = torch.randn(STEPS, BATCH, FEATURES)
        for given in (x, torch._neg_view(x)):
            found = numbers(rnn, given)
            with the_long_way():
                assert same(found, numbers(rnn, given))


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("name", ["reset after", "lstm", "multiplied out"])
def test_parameters_that_are_not_what_lies_there(used, name, before):
    rnn, x = made(name), torch.randn(STEPS, BATCH, FEATURES)
    with the_long_way():
        expected = numbers(rnn, x)
    for _ in range(before):
        numbers(rnn, x)
    for parameter in rnn.parameters():
        parameter.data = torch._neg_view(-parameter.data)
        assert parameter.is_neg()
    for _ in range(3):
        assert same(numbers(rnn, x), expected)


def test_states_that_are_not_what_lies_there(used):
    rnn, x = made("reset after"), torch.randn(STEPS, BATCH, FEATURES)
    state = torch.randn(1, BATCH, 24)
    expected = rnn(x, state)[0]
    for given in (state, state, torch._neg_view(-state)):
        assert torch.equal(rnn(x, given)[0], expected)
    assert used


@pytest.mark.parametrize("wanted", [False, True])
def test_inputs_that_outlived_a_transform(used, wanted):
    rnn = made("reset after")
    parameters = list(rnn.parameters())
    for _ in range(3):
        x, escaped = torch.randn(STEPS, BATCH, FEATURES, requires_grad=wanted), []
        torch.func.vjp(lambda x, to=escaped: (to.append(x), x.sum())[1], x)
        among = [x, *parameters] if wanted else parameters
        found = torch.autograd.grad(loss(rnn, escaped[0]), among)
        with the_long_way():
            assert same(found, torch.autograd.grad(loss(rnn, x), among))


def test_derivatives_of_gradients(used):
    rnn, x = made("reset after"), torch.randn(STEPS, BATCH, FEATURES)

    def second():
        grads = torch.autograd.grad(loss(rnn, x), list(rnn.parameters()), create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in grads), list(rnn.parameters()))

    for _ in range(2):
        numbers(rnn, x)
    before = len(used)
    found = second()
    assert len(used) == before + 1, "the forward"
    with the_long_way():
        assert same(found, second())


def test_batches_of_two_shapes_in_turn(used):
    rnn = made("reset after")
    for call in range(6):
        x = torch.randn(STEPS + call % 2, BATCH, FEATURES)
        found = numbers(rnn, x)
        with the_long_way():
            assert same(found, numbers(rnn, x))
    assert used


@pytest.mark.parametrize("name", ["reset after", "lstm", "tied"])
def test_an_input_with_a_gradient(used, name):
    rnn = made(name)
    for _ in range(3):
        x = torch.randn(STEPS, BATCH, FEATURES, requires_grad=True)
        wanted = [x, *rnn.parameters()]
        found, played = torch.autograd.grad(loss(rnn, x), wanted), len(used)
        with the_long_way():
            assert same(found, torch.autograd.grad(loss(rnn, x), wanted))
        change(rnn)
    assert played == 2


def test_parameters_that_moved(used):
    rnn, x = made("reset after"), torch.randn(STEPS, BATCH, FEATURES)
    for _ in range(3):
        numbers(rnn, x)
    rnn.load_state_dict({name: value * 2 for name, value in rnn.state_dict().items()}, assign=True)
    for _ in range(3):
        found = numbers(rnn, x)
        with the_long_way():
            assert same(found, numbers(rnn, x))


OTHERS = {
    "given state": (passnet.GRU, {}, {"hx": (1,)}),
    "given states": (passnet.LSTM, {}, {"hx": (2,)}),
    "learned start": (passnet.LSTM, {"learn_initial_state": True}, {}),
    "lengths": (passnet.GRU, {"reset": "before"}, {"lengths": [STEPS, 2]}),
    "lengths of two states": (passnet.LSTM, {}, {"lengths": [STEPS, 2]}),
    "dropout": (passnet.GRU, {"dropout_state": 0.5, "dropout_input": 0.2}, {}),
    "zoneout": (passnet.LSTM, {"zoneout": 0.5}, {}),
    "weight norm": (passnet.GRU, {"weight_norm": True}, {}),
    "layers": (passnet.GRU, {"num_layers": 2, "dropout": 0.5}, {}),
    "directions": (passnet.GRU, {"bidirectional": True}, {"lengths": [STEPS, 2]}),
}


@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_passes_of_other_calls(used, name, symbols):
    kind, options, words = OTHERS[name]
    torch.manual_seed(0)
    rnn = kind(FEATURES, 24, matrix=BOTH(4), backend="cuda", **options)

    def found(x, states):
        torch.manual_seed(1)  # of masks
        given = {"hx": states[0] if len(states) == 1 else states} if states else {}
        output, state = rnn(x, **(words | given))
        loss = of_all(output, *(state if isinstance(state, tuple) else (state,)))
        return [output.detach(), *torch.autograd.grad(loss, [*states, *rnn.parameters()])]

    for call in range(4):
        x = torch.randn(STEPS, BATCH, FEATURES)
        x = x.argmax(-1) if symbols else x
        count = words.get("hx", (0,))[0]
        states = tuple(torch.randn(1, BATCH, 24, requires_grad=True) for _ in range(count))
        short, before = found(x, states), len(used)
        assert before >= 2 * max(0, call - 1)
        with the_long_way():
            assert same(short, found(x, states))
        assert len(used) == before
        change(rnn)


@pytest.mark.parametrize(
    "first", [torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__
)
@pytest.mark.parametrize("state", [None, torch.ones(1, BATCH, 24)], ids=["zero", "given"])
def test_calls_without_gradients(used, state, first):
    rnn = passnet.GRU(FEATURES, 24, matrix=BOTH(4), backend="cuda")
    for mode in (first, first, torch.inference_mode, torch.enable_grad):
        x = torch.randn(STEPS, BATCH, FEATURES)
        with mode():
            found = rnn(x, state)
            with the_long_way():
                assert same(found, rnn(x, state))
    assert len(used) == 2


def prune_the_last(rnn):
    prune.l1_unstructured(rnn.cells[0].matrix, "diagonal", amount=0.5)


def prune_the_bias(rnn):
    prune.l1_unstructured(rnn.cells[0], "bias", amount=0.5)


def register_anew(rnn):
    matrix = rnn.cells[0].matrix
    expand, matrix.expand = matrix.expand, None
    del matrix.expand
    matrix.expand = expand


def hold_units(rnn):
    rnn.dropouts = replace(rnn.dropouts, zoneout=0.5)


def reset_elsewhere(rnn):
    rnn.cells[0].reset = "before"


def lose_the_diagonal(rnn):
    rnn.cells[0].recurrent.structure = STRUCTURES["low_rank"]


@pytest.mark.parametrize(
    "changed",
    [prune_the_last, prune_the_bias, register_anew, hold_units, reset_elsewhere, lose_the_diagonal],
)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_a_layer_that_became_another_function_of_tensors_of_the_same_shapes(used, mode, changed):
    # Square factors, so that one could stand where the other does.
    rnn = passnet.GRU(FEATURES, 12, matrix=BOTH(12), backend="cuda").eval()
    x = torch.randn(STEPS, BATCH, FEATURES)
    change(rnn)  # biases start at zero, and would stay there
    with mode():
        before = [rnn(x)[0] for _ in range(3)][-1]
        assert used
        changed(rnn)
        with the_long_way():
            expected = rnn(x)[0]
        assert changed is register_anew or not torch.allclose(expected, before)
        for _ in range(3):
            assert torch.equal(rnn(x)[0], expected)


def turn_on_weight_norm(rnn):
    rnn.cells[0].weight_norm = rnn.cells[0].recurrent.weight_norm = True


def turn_off_weight_norm(rnn):
    rnn.cells[0].weight_norm = rnn.cells[0].recurrent.weight_norm = False


def turn_on_that_of_inputs(rnn):
    rnn.cells[0].weight_norm = True


def turn_on_that_of_states(rnn):
    rnn.cells[0].recurrent.weight_norm = True


def tie(rnn):
    rnn.cells[0].recurrent.expand = rnn.cells[0].recurrent.project


def untie(rnn):
    rnn.cells[0].recurrent.expand = nn.Parameter(rnn.cells[0].recurrent.project.detach() * 2)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (turn_off_weight_norm, turn_on_weight_norm),
        (turn_on_weight_norm, turn_off_weight_norm),
        (turn_off_weight_norm, turn_on_that_of_inputs),
        (turn_off_weight_norm, turn_on_that_of_states),
        (tie, untie),
        (untie, tie),
    ],
)
def test_a_layer_that_is_changed_and_changed_back(used, first, then):
    normalised = first not in (tie, untie)
    rnn = passnet.GRU(FEATURES, 12, matrix=BOTH(12), backend="cuda", weight_norm=normalised)
    x = torch.randn(STEPS, BATCH, FEATURES)
    change(rnn)  # rows are of the length that weight normalisation gives them
    for changed in (first, then, first):
        changed(rnn)
        for _ in range(3):
            found = rnn(x)
            with the_long_way():
                assert same(found, rnn(x))


def test_a_parameter_under_the_name_of_another(used):
    """Of the same shape, where each has the other's name in turn."""
    rnn = passnet.GRU(FEATURES, 12, matrix=LOW(4), backend="cuda", weight_norm=True)
    change(rnn)
    turn_off_weight_norm(rnn)
    cell, x = rnn.cells[0], torch.randn(STEPS, BATCH, FEATURES)
    scale, bias = cell.input_weight_scale, cell.bias
    for cell.input_weight_scale, cell.bias in ((None, bias), (scale, None)):
        for _ in range(3):
            found = rnn(x)
            with the_long_way():
                assert same(found, rnn(x))
    assert used


def test_a_bias_where_there_was_none(used):
    rnn = passnet.GRU(FEATURES, 12, matrix=BOTH(4), backend="cuda", bias=False)
    x, given = torch.randn(STEPS, BATCH, FEATURES), {"cells.0.bias": torch.ones(3, 12)}
    before = [rnn(x)[0] for _ in range(3)][-1]
    assert used
    for _ in range(3):
        found, _ = torch.func.functional_call(rnn, given, (x,))
        with the_long_way():
            assert torch.equal(found, torch.func.functional_call(rnn, given, (x,))[0])
        assert not torch.allclose(found, before)
    assert torch.equal(rnn(x)[0], before)


def turned(tensor):
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor.clone()


def beside(tensor):
    return torch.cat((tensor.new_zeros(1), tensor.flatten()))[1:].view(tensor.shape)


@pytest.mark.parametrize("unpack", [turned, beside, torch.clone])
@pytest.mark.parametrize("name", ["reset after", "lstm", "dense", "multiplied out"])
def test_hooks_hand_saved_tensors_back_that_lie_otherwise(used, name, unpack):
    rnn = made(name)
    for _ in range(4):
        x = torch.randn(STEPS, BATCH, FEATURES)
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            found = numbers(rnn, x)
        with the_long_way():
            assert same(found, numbers(rnn, x))
        change(rnn)
    assert len(used) == (4 if unpack is torch.clone else 2)


def test_scans_of_several_kinds_in_turn(used):
    """They differ in one thing each, and share an op that remembers them."""
    after, before = (
        passnet.GRU(FEATURES, 24, matrix=BOTH(4), backend="cuda", reset=reset, bias=False)
        for reset in ("after", "before")
    )
    half = passnet.GRU(FEATURES, 24, matrix=BOTH(4), backend="cuda", bias=False).bfloat16()
    x, state = torch.randn(STEPS, BATCH, FEATURES), torch.zeros(1, BATCH, 24)
    calls = [
        (after, x, state),
        (before, x, state),
        (after, x[:2], state),
        (half, x.bfloat16(), state.bfloat16()),
    ]

    def found(rnn, *given):
        output, _ = rnn(*given)
        grads = torch.autograd.grad(output.square().sum(), list(rnn.parameters()))
        return [output.detach(), *grads]

    for _ in range(4):
        for call in calls:
            short = found(*call)
            with the_long_way():
                assert same(short, found(*call))
    assert len(used) == 2 * 2 * len(calls)


def test_scans_over_the_whole_chip_take_the_long_way(used):
    rnn = passnet.GRU(FEATURES, 1000, matrix=LOW(16), backend="cuda")
    x = torch.randn(2, BATCH, FEATURES)
    first, *others = [numbers(rnn, x) for _ in range(3)]
    assert all(same(first, other) for other in others) and used == []
