"""Highway layers in training on their CUDA kernels, against plain PyTorch in float64."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from accuracy import assert_all_accurate
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
from layer_twins import doubled, signed

import passnet
from passnet.ops.cuda.highway import KERNELS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
WIDE = {"low-rank": passnet.LowRank(64), "diagonal": passnet.LowRankPlusDiagonal(64)}


@pytest.fixture(autouse=True)
def whole_products():
    """Products in float32, not in tf32, whatever the machine is set to."""
    switches = torch.backends.cuda.matmul
    before, switches.allow_tf32 = switches.allow_tf32, False
    yield
    switches.allow_tf32 = before


@pytest.mark.parametrize("rows", [1, 2, 100, 1000])
@pytest.mark.parametrize("columns", [1, 31, 33, 1000])
@pytest.mark.parametrize("stack", [None, 2])
def test_norms(rows, columns, stack):
    case = Norm(rows, columns, stack)
    ours, reference, truth = three_ways(partial(case.numbers, device="cuda"), case.draws)
    assert_all_accurate(ours, reference=reference, truth=truth)


@pytest.mark.parametrize(
    "case",
    [
        Norm(100, 33, 2, scale=False, shift=False),
        Norm(100, 33, 2, equal=True),
        Norm(100, 33, 2, turned=True),
        Norm(100, 33, 2, centre=100.0),
    ],
    ids=str,
)
def test_other_norms(case):
    ours, reference, truth = three_ways(partial(case.numbers, device="cuda"), case.draws)
    assert_all_accurate(ours, reference=reference, truth=truth)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("shape", [(3, 7), (100, 1000)], ids=str)
def test_gates(activation, shape):
    numbers = partial(gate_numbers, shape, activation, device="cuda")
    ours, reference, truth = three_ways(numbers, 20)
    assert_all_accurate(ours, reference=reference, truth=truth)


@pytest.mark.parametrize("matrix", WIDE)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_layers(matrix, activation):
    layer = made_layer(WIDE[matrix], 256, "cuda", activation=activation)
    ours, reference, truth = layer_three_ways(layer, 100)
    assert_all_accurate(ours, reference=reference, truth=truth)


@pytest.mark.parametrize("matrix", MATRICES)
def test_layers_of_every_structure(matrix):
    ours, reference, truth = layer_three_ways(made_layer(MATRICES[matrix], device="cuda"), 40)
    assert_all_accurate(ours, reference=reference, truth=truth)


@pytest.mark.parametrize("matrix", ["low-rank", "diagonal tied"])
def test_second_derivatives(matrix):
    layer = made_layer(MATRICES[matrix], device="cuda", activation="tanh")
    ours, reference, truth = layer_three_ways(layer, 40, second_numbers)
    assert_all_accurate(ours, reference=reference, truth=truth)


def test_runs_give_the_same_bits():
    layer, x = made_layer(WIDE["diagonal"], 256, "cuda"), signed(100, 256).cuda()
    expected = layer_numbers(copy.deepcopy(layer), x)
    for _ in range(5):
        for name, value in layer_numbers(copy.deepcopy(layer), x).items():
            assert torch.equal(value, expected[name]), name


def kernels_of(layer: passnet.Highway, x) -> list[str]:
    """The names of all kernels of one forward and backward."""
    out = layer(x)
    weight = torch.rand_like(out)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        torch.autograd.grad(layer(x), list(layer.parameters()), weight)
        torch.cuda.synchronize()
    return [e.name for e in profile.events() if e.device_type.name == "CUDA"]


def test_the_kernels_are_used():
    layer, x = made_layer(WIDE["low-rank"], 256, "cuda"), signed(100, 256).cuda()
    names = kernels_of(layer, x)
    for kernel, count in (("normalise", 4), ("gate", 2)):
        for which in ("forward", "backward"):
            assert names.count(f"{kernel}_{which}") == count
    with without_kernels():
        assert len(names) < len(kernels_of(layer, x)) / 2


def test_captured_in_a_cuda_graph():
    layer, x = made_layer(WIDE["diagonal"], 256, "cuda"), signed(100, 256).cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            layer_numbers(layer, x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = layer_numbers(layer, x)
    x.copy_(signed(100, 256))
    plain, exact = copy.deepcopy(layer), doubled(layer)  # the replay moves the averages
    graph.replay()
    with without_kernels():
        reference, truth = layer_numbers(plain, x), layer_numbers(exact, x.double())
    # Products inside and outside of a graph need not be the same to the last bit.
    assert_all_accurate(found, reference=reference, truth=truth)


def test_compiled_without_graph_breaks():
    layer = made_layer(MATRICES["diagonal"], device="cuda")
    x = signed(40, layer.size).cuda()
    found, expected = copy.deepcopy(layer), copy.deepcopy(layer)
    compiled = torch.compile(found, fullgraph=True)
    torch.testing.assert_close(compiled(x), expected(x))
    for got, want in zip(found.buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(got, want)


def test_on_another_stream():
    layer, x = made_layer(WIDE["low-rank"], 256, "cuda"), signed(100, 256).cuda()
    expected = layer(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        found = layer(x)
    torch.cuda.synchronize()
    assert torch.equal(found, expected)


def test_only_single_precision_on_a_gpu_is_served():
    x = torch.zeros(2, 3, device="cuda")
    before = torch.zeros(2, 2, 3, device="cuda")
    assert KERNELS.gates(x, before, "relu")
    assert not KERNELS.gates(x.double(), before.double(), "relu")
    assert not KERNELS.gates(x.cpu(), before.cpu(), "relu")
