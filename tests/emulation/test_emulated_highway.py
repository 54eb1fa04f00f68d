"""The text of the Highway kernels, executed on a CPU, against plain PyTorch in float64; see
`test_emulated_kernels.py` for the orders of threads."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
import torch
from accuracy import assert_all_accurate
from emulator import BACKWARDS, EmulatedKernel
from gpu.highway_cases import (
    MATRICES,
    Norm,
    gate_numbers,
    layer_numbers,
    layer_three_ways,
    made_layer,
    second_numbers,
    three_ways,
    without_kernels,
)
from layer_twins import signed

from passnet.ops.cuda.highway import KERNELS
from passnet.ops.highway_gate import highway_gate

SHUFFLED = 2


@pytest.fixture(autouse=True)
def chip(emulator, monkeypatch):
    """The kernels take tensors of the CPU, to an emulated chip."""
    chip = emulator()
    monkeypatch.setattr(KERNELS, "chip_of", lambda device: chip)
    monkeypatch.setattr(KERNELS, "device_type", "cpu")
    return chip


@pytest.fixture
def launches(monkeypatch) -> Counter[str]:
    """How often each kernel was launched."""
    count, launch = Counter(), EmulatedKernel.launch

    def counted(self, *given, **words) -> None:
        count[self.name] += 1
        launch(self, *given, **words)

    monkeypatch.setattr(EmulatedKernel, "launch", counted)
    return count


def check(numbers, draws: int, chip) -> None:
    ours, reference, truth = three_ways(numbers, draws)
    assert_all_accurate(ours, reference=reference, truth=truth)
    expected = numbers(0, torch.float32)
    for chip.order in (BACKWARDS, SHUFFLED):
        for name, value in numbers(0, torch.float32).items():
            assert torch.equal(value, expected[name]), f"{name} depends on the order of threads"


@pytest.mark.parametrize("rows", [1, 2, 16, 100, 300])
@pytest.mark.parametrize("columns", [1, 31, 33])
@pytest.mark.parametrize("stack", [None, 1, 2])
def test_norms(chip, rows, columns, stack):
    case = Norm(rows, columns, stack)
    check(case.numbers, case.draws, chip)


@pytest.mark.parametrize(
    "case",
    [
        Norm(100, 33, 2, scale=False),
        Norm(100, 33, 2, shift=False),
        Norm(100, 33, 2, scale=False, shift=False),
        Norm(100, 33, 2, equal=True),
        Norm(2, 31, equal=True),
        Norm(100, 33, 2, turned=True),
        Norm(17, 1, 2, turned=True),
        Norm(100, 33, 2, centre=100.0),
        Norm(100, 1000, 2),
    ],
    ids=str,
)
def test_other_norms(chip, case):
    check(case.numbers, case.draws, chip)


def test_equal_rows_are_normalised_to_exactly_the_shift(launches):
    x = torch.full((100, 3), 0.1)
    mean, deviation, shift = torch.zeros(3), torch.ones(3), signed(3)
    out, statistics = KERNELS.normalise(x, mean, deviation, None, shift)
    assert torch.equal(out, shift.expand(100, 3))
    assert torch.equal(statistics, torch.tensor([[0.1] * 3, [0.0] * 3, [0.0] * 3]))
    assert launches == {"normalise_forward": 1}


def test_numbers_that_are_not_what_lies_there():
    x, grad = signed(7, 3), signed(7, 3)
    scale, state, before = signed(3), signed(7, 3), signed(2, 7, 3)

    def numbers(negated):
        given = [torch._neg_view(-t) if negated else t for t in (x, grad, scale, state, before)]
        x_, grad_, scale_, state_, before_ = given
        out, statistics = KERNELS.normalise(x_, torch.zeros(3), torch.ones(3), scale_, None)
        back = KERNELS.normalise_backward(grad_, x_, statistics, scale_)
        gated = KERNELS.gate(state_, before_, "tanh")
        return out, *back, gated, *KERNELS.gate_backward(grad_, state_, before_, "tanh")

    assert all(map(torch.equal, numbers(True), numbers(False)))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (100, 33)], ids=str)
def test_gates(chip, activation, shape):
    draws = max(1, 400 // (shape[0] * shape[1]))
    check(partial(gate_numbers, shape, activation), draws, chip)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_gates_of_extreme_numbers(activation):
    extreme = torch.tensor([-1e30, -200.0, -90.0, -0.0, 90.0, 200.0, 1e30, float("nan")])
    before = torch.cartesian_prod(extreme, extreme).mT.contiguous()
    state = torch.linspace(-2, 2, before.shape[1])
    found = highway_gate(state, before, activation)
    with without_kernels():
        torch.testing.assert_close(
            found, highway_gate(state, before, activation), equal_nan=True, rtol=1e-6, atol=1e-30
        )


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_layers(name, activation):
    layer = made_layer(MATRICES[name], activation=activation)
    ours, reference, truth = layer_three_ways(layer, 40)
    assert_all_accurate(ours, reference=reference, truth=truth)


def test_dropout_draws_the_same_masks():
    layer = made_layer(MATRICES["low-rank"], dropout=0.3, dropout_bottleneck=0.3)
    x = signed(40, layer.size)
    torch.manual_seed(5)
    found = layer(x)
    with without_kernels():
        torch.manual_seed(5)
        torch.testing.assert_close(found, layer(x))


def test_a_layer_launches_six_kernels(launches):
    layer = made_layer(MATRICES["diagonal"])
    layer_numbers(layer, signed(9, layer.size))
    passes = ("normalise_forward", "normalise_backward", "gate_forward", "gate_backward")
    assert launches == dict(zip(passes, (4, 4, 2, 2), strict=True))


def test_without_batch_norm_the_gate_is_served(launches):
    layer = made_layer(MATRICES["low-rank"], batch_norm=False)
    ours, reference, truth = layer_three_ways(layer, 40)
    assert_all_accurate(ours, reference=reference, truth=truth)
    assert launches == {"gate_forward": 2, "gate_backward": 2}


@pytest.mark.parametrize("name", ["low-rank", "diagonal tied"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_second_derivatives(name, activation):
    layer = made_layer(MATRICES[name], activation=activation)
    ours, reference, truth = layer_three_ways(layer, 40, second_numbers)
    assert_all_accurate(ours, reference=reference, truth=truth)


def test_an_activation_that_the_gate_does_not_know(chip):
    x = torch.zeros(3, 4)
    assert KERNELS.gates(x, torch.zeros(2, 3, 4), "relu")
    assert not KERNELS.gates(x, torch.zeros(2, 3, 4), "softplus")


def test_everything_else_takes_the_plain_way(launches):
    layer = made_layer(MATRICES["low-rank"])
    x = signed(9, layer.size)
    layer.eval()(x[:0])
    layer.train()
    layer.double()(x.double())
    # Batch norm in training has neither forward mode nor a transform that could move its averages.
    layer.float().eval()
    torch.func.grad(lambda x: layer(x).square().sum())(x)
    torch.func.vmap(layer)(x.unsqueeze(1))
    torch.func.jvp(layer, (x,), (x,))
    with torch.autograd.forward_ad.dual_level():
        layer(torch.autograd.forward_ad.make_dual(x, x))
    assert not launches


def test_autocast_keeps_the_statistics_in_single_precision(launches):
    layer = made_layer(MATRICES["diagonal"])
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(signed(9, layer.size))
    out.sum().backward()
    assert launches["normalise_forward"] == launches["normalise_backward"] == 4
    assert all(p.grad.dtype == torch.float32 for p in layer.parameters())
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


def test_autograd_is_told_that_averages_move():
    layer = made_layer(MATRICES["low-rank"])
    versions = [buffer._version for buffer in layer.buffers()]
    layer(signed(9, layer.size))
    assert all(b._version > v for b, v in zip(layer.buffers(), versions, strict=True))


def test_batched_gradients_take_the_plain_way():
    layer = made_layer(MATRICES["low-rank"], activation="tanh")
    x = signed(7, layer.size).requires_grad_()
    out, wanted = layer(x), [x, *layer.parameters()]
    flowing = torch.stack([signed(*out.shape) for _ in range(2)])

    def grads(flow, **options):
        return torch.autograd.grad(out, wanted, flow, retain_graph=True, **options)

    expected = [torch.stack(pair) for pair in zip(*map(grads, flowing), strict=True)]
    for found in (grads(flowing, is_grads_batched=True), torch.vmap(grads)(flowing)):
        torch.testing.assert_close(list(found), expected)
