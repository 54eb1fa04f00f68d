"""Under tracing, batched gradients, vmap and the meta device: the numbers of an ordinary call."""

from __future__ import annotations

import pytest
import torch
from layer_twins import randomised, signed
from structures import SIZE
from torch.utils.flop_counter import FlopCounterMode

import passnet

M, T, B = 3, 5, 4
SPEC = passnet.LowRankPlusDiagonal(3)
each_kind = pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
each_backend = pytest.mark.parametrize("backend", ["auto", "eager", "reference"])


def made(kind, **options):
    return randomised(kind(M, SIZE, matrix=SPEC, **options))


@each_kind
@each_backend
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_trace_computes_what_the_layer_does(kind, backend, grad):
    layer = made(kind, backend=backend)
    with torch.set_grad_enabled(grad):
        traced = torch.jit.trace(layer, (signed(T, B, M),), check_trace=False)
        x = -signed(T, B, M)
        torch.testing.assert_close(traced(x), layer(x), rtol=0, atol=0)


class Step(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *state):
        return self.layer.step(x, self.layer._join(state))[0]


@each_kind
@torch.no_grad()
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_trace_computes_what_a_step_does(kind):
    step = Step(made(kind))
    state = [signed(1, B, SIZE) for _ in step.layer.state_names]
    traced = torch.jit.trace(step, (signed(B, M), *state), check_trace=False)
    x = -signed(B, M)
    torch.testing.assert_close(traced(x, *state), step(x, *state))


@each_kind
@each_backend
def test_batched_gradients(kind, backend):
    layer, x = made(kind, backend=backend), signed(T, B, M).requires_grad_()
    outputs, wanted = layer(x)[0], [x, *layer.parameters()]
    flowing = torch.stack([signed(*outputs.shape), -2 * signed(*outputs.shape).flip(0)])

    def grads(flow, **options):
        return torch.autograd.grad(outputs, wanted, flow, retain_graph=True, **options)

    expected = [torch.stack(pair) for pair in zip(*map(grads, flowing), strict=True)]
    together = grads(flowing, is_grads_batched=True)
    mapped = torch.vmap(grads)(flowing)
    again = grads(flowing, is_grads_batched=True, create_graph=True)
    for found in (together, mapped, again):
        torch.testing.assert_close(list(found), expected)
    (twice,) = torch.autograd.grad(again[0].square().sum(), x, retain_graph=True)
    (plain,) = torch.autograd.grad(
        sum(grads(flow, create_graph=True)[0].square().sum() for flow in flowing), x
    )
    torch.testing.assert_close(twice, plain)


@each_kind
def test_vmap_over_symbols_and_lengths(kind):
    layer = made(kind)
    symbols, x = torch.randint(M, (2, T, B)), signed(T, B, M)
    lengths = torch.tensor([[5, 4, 3, 1], [1, 2, 3, 5]])
    found = torch.vmap(lambda s: layer(s)[0])(symbols)
    torch.testing.assert_close(found, torch.stack([layer(s)[0] for s in symbols]))
    found = torch.vmap(lambda n: layer(x, lengths=n)[0])(lengths)
    torch.testing.assert_close(found, torch.stack([layer(x, lengths=n)[0] for n in lengths]))


@each_kind
def test_vmap_draws_dropout_for_each_example(kind):
    layer = made(kind, dropout_input=0.3, dropout_state=0.5, dropout_output=0.2)
    x = torch.stack([signed(T, B, M)] * 2)
    apart = torch.vmap(lambda v: layer(v)[0], randomness="different")(x)
    alike = torch.vmap(lambda v: layer(v)[0], randomness="same")(x)
    assert not torch.equal(apart[0], apart[1])
    assert torch.equal(alike[0], alike[1])
    dropped = (alike == 0).all(1)  # a mask of the output is fixed over time
    assert dropped.any() and not dropped.all()


@each_kind
def test_shapes_without_numbers(kind):
    layer = kind(M, SIZE, 2, matrix=SPEC, device="meta")
    output, state = layer(torch.empty(T, B, M, device="meta"), lengths=torch.tensor([5, 1, 2, 3]))
    assert output.device.type == "meta" and output.shape == (T, B, SIZE)
    assert layer._split(state)[0].shape == (2, B, SIZE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: passnet.UnitaryRNN(M, SIZE),
        lambda: made(passnet.GRU, backend="reference"),
        lambda: made(passnet.LSTM, backend="reference"),
    ],
    ids=["uRNN", "GRU", "LSTM"],
)
def test_plain_loops_compile_as_one_graph(make):
    layer, x = make(), signed(T, B, M)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x), layer(x))


def test_dropout_under_vmap_is_scaled_and_as_rare_as_asked():
    torch.manual_seed(0)
    layer = passnet.GRU(M, 400, matrix=SPEC, dropout_output=0.2)
    x = torch.stack([signed(T, B, M)] * 2)
    found = torch.vmap(lambda v: layer(v)[0], randomness="different")(x)
    plain = layer.eval()(x[0])[0].expand_as(found)
    kept = found != 0
    torch.testing.assert_close(found[kept], plain[kept] / 0.8)
    assert 0.15 < 1 - kept.double().mean() < 0.25


@each_kind
def test_batched_gradients_are_not_rounded_by_autocast(kind):
    layer = made(kind)
    outputs, wanted = layer(signed(T, B, M))[0], list(layer.parameters())
    flowing = signed(2, *outputs.shape)
    options = {"is_grads_batched": True, "retain_graph": True}
    expected = torch.autograd.grad(outputs, wanted, flowing, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(outputs, wanted, flowing, **options)
    assert all(map(torch.equal, found, expected))


@each_kind
def test_wrong_lengths_are_refused_inside_transforms_too(kind):
    layer, x = made(kind), signed(T, 2, M)

    def loss(x, lengths):
        return layer(x, lengths=lengths)[0].sum()

    wrong = pytest.raises(ValueError, match=f"each must be from 1 to {T}")
    with wrong:
        torch.func.grad(loss)(x, [99, 1])
    with FlopCounterMode(display=False), wrong:
        loss(x, [99, 1])


def test_inputs_that_outlived_a_transform():
    layer, x, escaped = passnet.GRU(3, 8), torch.randn(4, 2, 3, requires_grad=True), []

    def note(given):
        escaped.append(given)
        return given.sum()

    torch.func.vjp(note, x)
    wanted = [x, *layer.parameters()]
    found = torch.autograd.grad(layer(escaped[0])[0].square().sum(), wanted)
    expected = torch.autograd.grad(layer(x)[0].square().sum(), wanted)
    assert all(map(torch.equal, found, expected))


@each_kind
def test_parameters_that_outlived_a_transform(kind):
    layer, x, escaped = kind(3, 8), torch.randn(4, 2, 3), {}

    def note(given):
        escaped.update(given)
        return sum(parameter.sum() for parameter in given.values())

    torch.func.vjp(note, dict(layer.named_parameters()))
    output, _ = torch.func.functional_call(layer, escaped, (x,))
    found = torch.autograd.grad(output.square().sum(), list(layer.parameters()))
    expected = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    assert all(map(torch.equal, found, expected))


@each_kind
@pytest.mark.parametrize("transform", ["jvp", "jacfwd", "grad"])
def test_compiled_transforms_are_those_that_are_not(kind, transform):
    """A registered op would have tangents of zero there, silently."""
    layer, x = made(kind), signed(T, 1, M)

    def function(x):
        return layer(x)[0].square().sum(0)

    def applied(x):
        if transform == "jvp":
            return torch.func.jvp(function, (x,), (x,))[1]
        if transform == "jacfwd":
            return torch.func.jacfwd(function)(x)
        return torch.func.grad(lambda x: function(x).sum())(x)

    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(applied, backend="eager")(x), applied(x))
