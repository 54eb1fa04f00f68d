"""The unitary layer on its CUDA scan, against the loop in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from accuracy import assert_all_accurate
from gpu.unitary_cases import Case, compared

import passnet

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 5, 40),
        Case(12, 2, 30, at_zero=True),
        Case(21, 30, 5, lengths=True),
        Case(64, 20, 3, source="features"),
        Case(401, 6, 3),
        Case(721, 12, 20, lengths=True, source="symbols"),
        Case(1024, 6, 3),
    ],
    ids=str,
)
def test_the_scan(case):
    ours, reference, truth = compared(case, device="cuda")
    if case.n == 1:
        # To reflect one number is to change its sign, whatever the vector: no gradient to measure.
        for side in (ours, reference, truth):
            del side["reflections"]
    assert_all_accurate(ours, reference=reference, truth=truth)


def made(backend: str = "cuda", units: int = 721) -> passnet.UnitaryRNN:
    torch.manual_seed(3)
    layer = passnet.UnitaryRNN(6, units, device="cuda", backend=backend)
    with torch.no_grad():
        layer.cell.modulus_bias.abs_().neg_()
    return layer


def numbers(layer, x, **words) -> dict[str, torch.Tensor]:
    layer.zero_grad()
    output, state = layer(x, **words)
    (output.square().sum() + state.real.sum()).backward()
    found = {"output": output, "state": state}
    found |= {name: parameter.grad for name, parameter in layer.named_parameters()}
    return {name: tensor.detach() for name, tensor in found.items()}


@pytest.mark.parametrize("lengths", [None, [12, 1, 7, 5]], ids=["whole", "lengths"])
def test_a_layer(lengths):
    layer, x = made(), torch.randint(6, (12, 4), device="cuda")
    assert layer.explain_backends(x)["cuda"] is None
    plain = copy.deepcopy(layer)
    plain.backend = "reference"
    assert_all_accurate(
        numbers(layer, x, lengths=lengths),
        reference=numbers(plain, x, lengths=lengths),
        truth=numbers(copy.deepcopy(plain).double(), x, lengths=lengths),
    )


def test_runs_give_the_same_bits():
    layer, x = made(), torch.randint(6, (40, 20), device="cuda")
    expected = numbers(layer, x)
    for _ in range(5):
        for name, value in numbers(layer, x).items():
            assert torch.equal(value, expected[name]), name


def test_captured_in_a_cuda_graph():
    layer, x = made(), torch.randint(6, (12, 4), device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            layer(x)[0].sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    layer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        output = layer(x)[0]
        output.sum().backward()
    x.copy_(torch.randint_like(x, 6))
    graph.replay()
    assert torch.equal(output, layer(x)[0])


def test_second_derivatives_are_those_of_the_plain_loop():
    layer, x = made(units=64), torch.randn(5, 8, 6, device="cuda")
    plain = made("reference", units=64)

    def second(layer, x) -> dict[str, torch.Tensor]:
        x = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        named = {"input": x} | dict(layer.named_parameters())
        grads = torch.autograd.grad(first.square().sum(), list(named.values()))
        return dict(zip(named, grads, strict=True))

    assert_all_accurate(
        second(layer, x),
        reference=second(plain, x),
        truth=second(copy.deepcopy(plain).double(), x.double()),
    )


def test_refusals_are_sentences():
    x = torch.zeros(2, 1, 6, device="cuda")
    with pytest.raises(passnet.BackendRefused, match="float64"):
        made().double()(x.double())
    with pytest.raises(passnet.BackendRefused, match="9000 complex units take"):
        made(units=9000)(x)
