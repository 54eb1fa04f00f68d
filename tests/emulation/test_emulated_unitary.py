"""The text of the unitary scan, executed on a CPU, against a float64 loop; see
`test_emulated_kernels.py` for the orders of threads."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from accuracy import assert_all_accurate
from emulator import BACKWARDS
from gpu.unitary_cases import Case, compared, kernel, made, single
from layer_twins import doubled, randomised, signed
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import passnet
from passnet.ops import unitary_backends, unitary_scan
from passnet.ops.cuda import unitary
from passnet.ops.cuda.unitary_plan import Step, UnitaryPlan

SHUFFLED = 2


def where(chip) -> dict:
    return {"chips": lambda device: chip}


def check(case: Case, chip) -> None:
    ours, reference, truth = compared(case, **where(chip))
    if case.n == 1:
        # To reflect one number is to change its sign, whatever the vector: no gradient to measure.
        for side in (ours, reference, truth):
            del side["reflections"]
    assert_all_accurate(ours, reference=reference, truth=truth)
    call, grad = made(case)
    call, grad = single(call), grad.float()
    expected = kernel(call, grad, **where(chip))
    for chip.order in (BACKWARDS, SHUFFLED):
        for name, value in kernel(call, grad, **where(chip)).items():
            assert torch.equal(value, expected[name]), f"{name} depends on the order of threads"


@pytest.mark.parametrize(
    "shape",
    [(1, 4, 3), (2, 3, 2), (6, 5, 3), (7, 4, 3), (15, 5, 2), (21, 6, 3), (64, 3, 2), (77, 4, 2)],
    ids=str,
)
@pytest.mark.parametrize("lengths", [False, True], ids=["whole", "lengths"])
def test_shapes(emulator, shape, lengths):
    check(Case(*shape, lengths=lengths), emulator())


def test_the_published_size(emulator):
    check(Case(721, 2, 1), emulator())


@pytest.mark.parametrize("source", ["features", "symbols"])
def test_inputs(emulator, source):
    check(Case(21, 5, 3, lengths=True, source=source), emulator())


def test_units_that_are_exactly_zero(emulator):
    """Nothing enters half of them in the first step."""
    check(Case(12, 2, 3, at_zero=True), emulator())


LAYOUTS = [
    # outputs, columns and lanes of a tile, table in registers; for each step
    ((4, 1, 4, True), (2, 2, 4, False)),
    ((2, 1, 1, False), (8, 1, 8, True)),
    ((1, 2, 2, True), (4, 2, 8, True)),
    ((8, 2, 8, False), (1, 1, 1, False)),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("threads", [64, 96])
def test_other_layouts(emulator, monkeypatch, layout, threads):
    """Tiles that do not fill, several rounds, tables read again and again."""

    def plan(units, *, backward, shared_limit):
        first, second = layout
        steps = Step(15, 9, *first, threads), Step(9, 15, *second, threads)
        return UnitaryPlan(*steps, threads)

    monkeypatch.setattr(unitary, "plan", plan)
    check(Case(135, 3, 2, lengths=True), emulator())


def test_strided_tensors(emulator):
    call, grad = made(Case(21, 3, 2, lengths=True))
    call, grad, chip = single(call), grad.float(), emulator()
    expected = kernel(call, grad, **where(chip))
    live, fixed, layout = call.flatten()
    apart = [torch.stack((tensor, tensor), -1)[..., 0] for tensor in live]
    hold = call.hold.mT.contiguous().mT
    given = replace(type(call).unflatten(apart, fixed, layout), hold=hold)
    for name, value in kernel(given, grad.mT.contiguous().mT, **where(chip)).items():
        assert torch.equal(value, expected[name]), name


def test_numbers_that_are_not_what_lies_there(emulator):
    call, grad = made(Case(21, 3, 2, source="features"))
    call, grad, chip = single(call), grad.float(), emulator()
    expected = kernel(call, grad, **where(chip))
    live, fixed, layout = call.flatten()
    negated = [torch._neg_view(-tensor) for tensor in live]
    given = type(call).unflatten(negated, fixed, layout)
    for name, value in kernel(given, torch._neg_view(-grad), **where(chip)).items():
        assert torch.equal(value, expected[name]), name


@pytest.fixture
def served(emulator, monkeypatch):
    """The layer's backend `cuda`, on an emulated chip."""
    chip, engine = emulator(), unitary_backends()[0]._engine
    monkeypatch.setattr(unitary_scan.cuda, "refuses_device", lambda *_: None)
    monkeypatch.setattr(engine, "_chip_of", lambda device: chip)


@torch.no_grad()
def made_layer(inputs: int, units: int) -> passnet.UnitaryRNN:
    """With negative biases, as in `unitary_cases`."""
    layer = randomised(passnet.UnitaryRNN(inputs, units))
    layer.cell.modulus_bias.abs_().neg_()
    return layer


def numbers(layer, x, **words) -> dict[str, torch.Tensor]:
    """Outputs, the final state and every gradient, by name."""
    x = x.clone().requires_grad_(x.is_floating_point())
    y, state = layer(x, **words)
    loss = y.square().sum() + 2 * state.real.sum() - state.imag.sum()
    named = {"input": x} if x.requires_grad else {}
    named |= dict(layer.named_parameters())
    grads = torch.autograd.grad(loss, list(named.values()))
    return {"output": y.detach(), "state": state.detach()} | dict(zip(named, grads, strict=True))


@pytest.mark.parametrize("lengths", [None, [4, 1, 3]], ids=["whole", "lengths"])
@pytest.mark.parametrize("symbols", [False, True], ids=["features", "symbols"])
def test_a_layer(served, lengths, symbols):
    layer = made_layer(3, 21)
    x = torch.randint(3, (4, 3)) if symbols else signed(4, 3, 3)
    assert layer.explain_backends(x, lengths=lengths) == {"cuda": None, "reference": None}
    plain = copy.deepcopy(layer)
    plain.backend = "reference"
    found = numbers(layer, x, lengths=lengths)
    assert_all_accurate(
        found,
        reference=numbers(plain, x, lengths=lengths),
        truth=numbers(doubled(plain), x if symbols else x.double(), lengths=lengths),
    )
    with torch.no_grad():
        assert torch.equal(layer(x, lengths=lengths)[0], found["output"])


def test_parameters_in_one_vector(served):
    """Where pairs of reals may begin at an odd place."""
    layer, x = made_layer(3, 21), signed(4, 3, 3)
    expected, parameters = numbers(layer, x), list(layer.parameters())
    vector_to_parameters(parameters_to_vector(parameters).detach(), parameters)
    assert layer.cell.reflections.storage_offset() % 2
    for name, value in numbers(layer, x).items():
        assert torch.equal(value, expected[name]), name


def test_second_derivatives_are_those_of_the_plain_loop(served):
    layer = made_layer(2, 6)
    x = signed(3, 2, 2)

    def second(layer, x) -> dict[str, torch.Tensor]:
        x = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        named = {"input": x} | dict(layer.named_parameters())
        grads = torch.autograd.grad(first.square().sum(), list(named.values()))
        return dict(zip(named, grads, strict=True))

    plain = copy.deepcopy(layer)
    plain.backend = "reference"
    assert_all_accurate(
        second(layer, x),
        reference=second(plain, x),
        truth=second(doubled(plain), x.double()),
    )


def test_transforms_and_double_precision_take_the_plain_loop(served):
    layer = made_layer(2, 6)
    x = signed(3, 2, 2)

    def loss(module):
        return lambda x: module(x)[0].square().sum()

    def plainly(module, x):
        return torch.autograd.grad(loss(module)(x.requires_grad_()), x)[0]

    double = doubled(layer)
    assert "float64" in double.explain_backends(x.double())["cuda"]
    plain = copy.deepcopy(layer)
    plain.backend = "reference"
    assert_all_accurate(
        {"input": torch.func.grad(loss(layer))(x)},
        reference={"input": plainly(plain, x.clone())},
        truth={"input": plainly(double, x.double())},
    )
    layer.backend = "cuda"
    with pytest.raises(passnet.BackendRefused, match="plain loop only, backend 'reference'"):
        torch.func.grad(loss(layer))(x)
