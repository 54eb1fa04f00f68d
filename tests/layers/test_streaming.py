"""One step at a time against the whole sequence: every structure, stacked layers, any start."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_all_accurate
from layer_twins import doubled, randomised, signed
from structures import SIZE, STRUCTURES
from torch.nn.utils import prune

import passnet

M, T, B = 3, 6, 4
KINDS = {
    "GRU before": lambda *a, **k: passnet.GRU(*a, reset="before", **k),
    "GRU after": passnet.GRU,
    "LSTM": passnet.LSTM,
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_mode = pytest.mark.parametrize("grad", [True, False], ids=["training", "no_grad"])
"""Outside autograd a step may take a shorter way than a sequence of one."""


def flat(output, state) -> dict[str, torch.Tensor]:
    parts = state if isinstance(state, tuple) else (state,)
    return {"output": output} | {f"state {k}": part for k, part in enumerate(parts)}


def stepped(layer, x, state=None, time=0) -> dict[str, torch.Tensor]:
    outputs = []
    for x_t in x.unbind(time):
        output, state = layer.step(x_t, state)
        outputs.append(output)
    return flat(torch.stack(outputs, time), state)


@each_kind
@pytest.mark.parametrize("spec", STRUCTURES.values(), ids=STRUCTURES)
@pytest.mark.parametrize("layers", [1, 3])
@each_mode
def test_steps_are_the_sequence(kind, spec, layers, grad):
    layer = KINDS[kind](M, SIZE, layers, matrix=spec, learn_initial_state=True)
    randomised(layer)
    x = signed(T, B, M)
    with torch.set_grad_enabled(grad):
        got = stepped(layer, x)
    assert_all_accurate(got, reference=flat(*layer(x)), truth=flat(*doubled(layer)(x.double())))


@each_kind
@pytest.mark.parametrize("layers", [1, 2])
def test_a_final_state_is_no_view_of_the_outputs(kind, layers):
    layer = randomised(KINDS[kind](M, SIZE, layers))
    for _ in range(3):  # a call that is made again may go another way
        output, state = layer(signed(T, B, M))
        before = output.detach().clone()
        for part in state if isinstance(state, tuple) else (state,):
            part.detach_().zero_()  # as between two pieces of a long sequence
        assert torch.equal(output, before) and output.requires_grad


@each_kind
@each_mode
def test_steps_with_zoneout_keep_what_it_keeps_on_average(kind, grad):
    layer = KINDS[kind](M, SIZE, matrix=passnet.LowRankPlusDiagonal(3), zoneout=0.3)
    randomised(layer).eval()
    x = signed(T, B, M)
    with torch.set_grad_enabled(grad):
        got = stepped(layer, x)
    assert_all_accurate(got, reference=flat(*layer(x)), truth=flat(*doubled(layer)(x.double())))


@each_kind
@pytest.mark.parametrize("spec", STRUCTURES.values(), ids=STRUCTURES)
def test_one_step_is_a_sequence_of_one_bit_for_bit(kind, spec):
    layer = randomised(KINDS[kind](M, SIZE, 2, matrix=spec, learn_initial_state=True))
    x = signed(1, B, M)
    for state in (None, layer(signed(T, B, M))[1]):
        sequence, step = flat(*layer(x, state)), flat(*layer.step(x[0], state))
        assert torch.equal(step.pop("output"), sequence.pop("output")[0])
        for name, value in step.items():
            assert torch.equal(value, sequence[name]), name


@each_kind
@pytest.mark.parametrize("batch", [1, 2, 7, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_short_steps_of_any_batch(kind, batch, dtype):
    spec = passnet.LowRankPlusDiagonal(3, tied=True)
    layer = randomised(KINDS[kind](M, SIZE, 2, matrix=spec)).to(dtype)
    x = signed(T, batch, M).to(dtype)
    with torch.no_grad():
        got = stepped(layer, x)
        # Through single precision, so that double has a truth too.
        whole, exact = flat(*layer(x)), flat(*doubled(layer)(x.double()))
    assert_all_accurate(
        {name: value.float() for name, value in got.items()},
        reference={name: value.float() for name, value in whole.items()},
        truth=exact,
    )


@each_kind
@each_mode
@pytest.mark.parametrize("bias", [True, False])
def test_a_step_sees_parameters_as_they_are_now(kind, grad, bias):
    """After an update in place, a load, a new tensor, a cast and a parametrisation."""
    layer = randomised(KINDS[kind](M, SIZE, matrix=passnet.LowRank(3), bias=bias))
    x = signed(2, B, M)
    cell = layer.cells[0]

    def update():
        for parameter in layer.parameters():
            parameter.mul_(0.5)

    def load():
        layer.load_state_dict({k: v + 0.1 for k, v in layer.state_dict().items()})

    def replace():
        cell.recurrent.expand = torch.nn.Parameter(cell.recurrent.expand + 0.2)

    def repoint():
        cell.input_weight.data = cell.input_weight.data + 0.3

    def wrap(owner, name):
        class Shifted(torch.nn.Module):
            def forward(self, raw):
                return raw + 0.25

        torch.nn.utils.parametrize.register_parametrization(owner, name, Shifted())

    changes = [update, load, replace, repoint]
    changes += [lambda: wrap(cell, "bias")] if bias else []
    changes += [lambda: wrap(cell, "input_weight"), lambda: wrap(cell.recurrent, "project")]
    for change in (lambda: None, *changes):
        with torch.no_grad():
            change()
        with torch.set_grad_enabled(grad):
            got = stepped(layer, x)
        whole, exact = flat(*layer(x)), flat(*doubled(layer)(x.double()))
        assert_all_accurate(got, reference=whole, truth=exact)


@each_kind
@pytest.mark.parametrize("layers", [1, 2])
def test_a_short_step_leaves_its_state_alone(kind, layers):
    layer = randomised(KINDS[kind](M, SIZE, layers, matrix=passnet.LowRank(3)))
    with torch.no_grad():
        _, state = layer.step(signed(1, M))
        before = [part.clone() for part in flat(state[0], state).values()]
        first = flat(*layer.step(signed(1, M), state))
        copies = {name: value.clone() for name, value in first.items()}
        layer.step(signed(1, M), state)
        after = list(flat(state[0], state).values())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert all(torch.equal(first[name], copies[name]) for name in first)
    first["output"].zero_()  # what is done to the output leaves the state alone
    assert torch.equal(first["state 0"], copies["state 0"])


@each_kind
def test_a_sequence_may_be_cut_anywhere(kind):
    layer = randomised(KINDS[kind](M, SIZE, 2, matrix=passnet.LowRankPlusDiagonal(3)))
    x = signed(T, B, M)
    whole, exact = flat(*layer(x)), flat(*doubled(layer)(x.double()))
    for cut in range(1, T):
        first, state = layer(x[:cut])
        second, state = layer(x[cut:], state)
        assert_all_accurate(flat(torch.cat((first, second)), state), reference=whole, truth=exact)


@each_kind
def test_forms_of_one_step(kind):
    """Batch-first, unbatched and symbol inputs."""
    spec = passnet.LowRank(3)
    first = randomised(KINDS[kind](M, SIZE, matrix=spec, batch_first=True))
    double = doubled(first)
    x = signed(B, T, M)
    assert_all_accurate(
        stepped(first, x, time=1), reference=flat(*first(x)), truth=flat(*double(x.double()))
    )
    single = x[0]
    assert_all_accurate(
        stepped(first, single), reference=flat(*first(single)), truth=flat(*double(single.double()))
    )
    for symbols, time in ((torch.randint(M, (B, T)), 1), (torch.randint(M, (T,)), 0)):
        assert_all_accurate(
            stepped(first, symbols, time=time),
            reference=flat(*first(symbols)),
            truth=flat(*double(symbols)),
        )


@each_kind
def test_gradients_flow_through_steps(kind):
    layer = randomised(KINDS[kind](M, SIZE, matrix=passnet.LowRank(3)))
    x = signed(T, B, M)
    found = []
    for module, run in ((layer, stepped), (layer, None), (doubled(layer), None)):
        given = x.to(module.cells[0].input_weight.dtype)
        outputs = run(module, given) if run else flat(*module(given))
        grads = torch.autograd.grad(outputs["output"].sum(), list(module.parameters()))
        found.append(dict(zip((n for n, _ in module.named_parameters()), grads, strict=True)))
    assert_all_accurate(found[0], reference=found[1], truth=found[2])


@each_mode
@pytest.mark.parametrize("started", [True, False])
def test_what_cannot_be_streamed_says_why(grad, started):
    def step(layer):
        state = signed(len(layer.cells), B, SIZE) if started else None
        with torch.set_grad_enabled(grad):
            return layer.step(signed(B, M), state)

    with pytest.raises(RuntimeError, match=r"one direction.*bidirectional"):
        step(passnet.GRU(M, SIZE, bidirectional=True))
    for options in ({"dropout_state": 0.5}, {"zoneout": 0.1}, {"num_layers": 2, "dropout": 0.5}):
        layer = passnet.GRU(M, SIZE, **options)
        with pytest.raises(RuntimeError, match=r"call \.eval\(\) first"):
            step(layer)
        step(layer.eval())


@each_kind
@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("name", ["bias", "input_weight", "diagonal", "expand", "project"])
@torch.no_grad()
def test_a_step_of_a_pruned_layer(kind, name, warm):
    layer = randomised(KINDS[kind](M, SIZE, matrix=passnet.LowRankPlusDiagonal(3)))
    x, state = signed(B, M), layer(signed(T, B, M))[1]
    if warm:
        layer.step(x, state)
    cell = layer.cells[0]
    owner = cell if name in ("bias", "input_weight") else cell.recurrent
    prune.random_unstructured(owner, name, amount=0.5)
    assert torch.equal(layer.step(x, state)[0], layer(x.unsqueeze(0), state)[0][0])


@each_kind
@pytest.mark.parametrize(
    ("name", "turned"), [("recurrent.weight", torch.adjoint), ("input_weight", torch._neg_view)]
)
@torch.no_grad()
def test_a_step_after_a_parameter_was_turned_in_place(kind, name, turned):
    """Its strides or its sign are others then, in PyTorch's books alone: memory stays as it is."""
    layer = randomised(KINDS[kind](M, SIZE))
    x, state = signed(B, M), layer(signed(T, B, M))[1]
    layer.step(x, state)
    weight = layer.cells[0].get_parameter(name)
    weight.data = turned(weight.data)
    assert torch.equal(layer.step(x, state)[0], layer(x.unsqueeze(0), state)[0][0])


@each_kind
@torch.no_grad()
def test_a_step_after_a_factor_took_another_shape(kind):
    """Nonsense, which a step refuses as a sequence does and not computes as it was before."""
    layer = randomised(KINDS[kind](M, SIZE, matrix=passnet.LowRank(3)))
    x, state = signed(B, M), layer(signed(T, B, M))[1]
    layer.step(x, state)
    expand = layer.cells[0].recurrent.expand
    expand.data = expand.data.view(len(expand), 3, SIZE)
    for call in (lambda: layer(x.unsqueeze(0), state), lambda: layer.step(x, state)):
        with pytest.raises((RuntimeError, ValueError)):
            call()


@torch.no_grad()
def test_a_step_of_a_pruned_inner_bias():
    layer = randomised(passnet.GRU(M, SIZE, matrix=passnet.LowRank(3), recurrent_bias=True))
    x, state = signed(B, M), layer(signed(T, B, M))[1]
    prune.identity(layer.cells[0], "inner_bias")
    assert torch.equal(layer.step(x, state)[0], layer(x.unsqueeze(0), state)[0][0])
