"""Weights that are no parameters themselves: pruned, normalised by hooks, standing for others."""

from __future__ import annotations

import copy

import pytest
import torch
from layer_twins import randomised, signed
from structures import SIZE
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.utils._pytree import tree_map

import passnet
from passnet.ops.direct import Direct

M, T, B = 3, 5, 4
RANK = passnet.LowRankPlusDiagonal(3)
LAYERS = {
    "GRU": (lambda: passnet.GRU(M, SIZE), "cells.0.recurrent", "weight"),
    "GRU, factors": (lambda: passnet.GRU(M, SIZE, matrix=RANK), "cells.0.recurrent", "expand"),
    "LSTM, inputs": (lambda: passnet.LSTM(M, SIZE, matrix=RANK), "cells.0", "input_weight"),
    "LSTM, own norm": (lambda: passnet.LSTM(M, SIZE, weight_norm=True), "cells.0", "input_weight"),
    "Highway": (lambda: passnet.Highway(M, matrix=RANK), "cells.0.recurrent", "expand"),
    "uRNN": (lambda: passnet.UnitaryRNN(M, SIZE), "cell", "input_weight"),
}  # fmt: skip
each_layer = pytest.mark.parametrize(("make", "where", "name"), LAYERS.values(), ids=LAYERS)


def half(module: nn.Module, name: str) -> None:
    prune.l1_unstructured(module, name, 0.5)


def normalised(module: nn.Module, name: str) -> None:
    nn.utils.weight_norm(module, name)


each_hook = pytest.mark.parametrize(
    "hook",
    [
        half,
        pytest.param(normalised, marks=pytest.mark.filterwarnings("ignore:.*weight_norm")),
    ],
)


def output(layer: nn.Module, x: Tensor) -> Tensor:
    found = layer(x)
    return found[0] if isinstance(found, tuple) else found


@each_hook
@each_layer
def test_a_hooked_weight_is_computed_at_every_call(make, where, name, hook):
    plain = randomised(make())
    layer, x = copy.deepcopy(plain), signed(T, B, M)
    hook(layer.get_submodule(where), name)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.5)
    for _ in range(2):
        optimiser.zero_grad()
        output(layer, x).square().sum().backward()
        optimiser.step()
    other = randomised(make())
    hook(other.get_submodule(where), name)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(output(other, x), output(layer, x))
    # What is computed is what a plain layer with that weight computes.
    state = {n: p.detach() for n, p in layer.named_parameters() if n in plain.state_dict()}
    computed = getattr(layer.get_submodule(where), name).detach()
    plain.load_state_dict(plain.state_dict() | state | {f"{where}.{name}": computed})
    assert torch.equal(output(plain, x), output(layer, x))


@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
def test_what_goes_to_torch_is_what_is_computed(kind):
    layer, x = randomised(kind(M, SIZE)), signed(T, B, M)
    for module, name in ((layer.cells[0].recurrent, "weight"), (layer.cells[0], "bias")):
        half(module, name)
        with torch.no_grad():
            getattr(module, f"{name}_orig").mul_(3)
    torch.testing.assert_close(layer.to_torch()(x)[0], layer(x)[0])


def test_rows_that_are_not_stored_are_not_clipped():
    layer = passnet.GRU(M, SIZE, matrix=RANK, max_row_norm=0.1)
    half(layer.cells[0].recurrent, "expand")
    with pytest.raises(ValueError, match="expand is pruned or normalised, so its rows are not"):
        passnet.clip_row_norms_(layer)


class StandsFor(Tensor):
    """A tensor without memory that stands for another, as a DTensor does."""

    @staticmethod
    def __new__(cls, other: Tensor):
        return Tensor._make_wrapper_subclass(
            cls, other.shape, dtype=other.dtype, requires_grad=other.requires_grad
        )

    def __init__(self, other: Tensor) -> None:
        self.other = other

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def inside(value):
            return value.other if isinstance(value, cls) else value

        found = func(*tree_map(inside, args), **tree_map(inside, kwargs or {}))
        if func is torch.ops.aten.detach.default:
            return cls(found)
        return found


@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
@torch.no_grad()
def test_nobody_reads_the_memory_of_a_tensor_that_has_none(kind):
    layer, x = randomised(kind(M, SIZE)), signed(T, B, M)
    expected = layer(x)[0]
    stepped = layer.step(x[0], layer(x)[1])[0]
    cell = layer.cells[0]
    cell.recurrent.weight = nn.Parameter(StandsFor(cell.recurrent.weight.detach()))
    assert type(cell.recurrent.weight) is StandsFor
    reasons = layer.explain_backends(x)
    said = "scan reads memory, and a StandsFor has none of its own"
    assert reasons["cpu"] == f"the cpu {said}" and reasons["cuda"] == f"the cuda {said}"
    assert reasons["eager"] is None
    torch.testing.assert_close(layer(x)[0], expected)
    torch.testing.assert_close(layer.step(x[0], layer(x)[1])[0], stepped)


@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
@pytest.mark.parametrize("backend", ["auto", "eager"])
@torch.no_grad()
def test_numbers_that_are_negated_when_they_are_read(kind, backend):
    layer = randomised(kind(1, 1, backend=backend))
    x, state = signed(1, 1, 1), signed(1, 1, 1)

    def states(state):
        return state if kind is passnet.GRU else (state, state)

    expected, following = layer(x, states(state))[0], layer.step(x[0], states(state))[0]
    lazily = torch._neg_view(-x), states(torch._neg_view(-state))
    assert torch.equal(layer(*lazily)[0], expected)
    # A GPU's kernels read inputs where they lie; products of a CPU would negate them.
    assert lazily[0].is_neg() and not layer._read(lazily[0], None, None)[0].is_neg()
    assert torch.equal(layer.step(lazily[0][0], lazily[1])[0], following)


@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
@pytest.mark.parametrize("backend", ["auto", "eager"])
def test_gradients_that_are_negated_when_they_are_read(kind, backend, monkeypatch):
    layer, x = (
        randomised(kind(M, SIZE, matrix=passnet.LowRank(3), backend=backend)),
        signed(2, B, M),
    )
    grad, arrived, gradients = signed(2, B, SIZE), [], Direct.gradients

    def listening(self, grads, *rest):
        arrived.extend(grad for grad in grads if grad is not None)
        return gradients(self, grads, *rest)

    expected = torch.autograd.grad(layer(x)[0], list(layer.parameters()), grad)
    monkeypatch.setattr(Direct, "gradients", listening)
    lazily = torch._neg_view(-grad)
    found = torch.autograd.grad(layer(x)[0], list(layer.parameters()), lazily)
    assert lazily.is_neg() and arrived and not any(grad.is_neg() for grad in arrived)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@torch.no_grad()
def test_a_step_notices_that_a_weight_was_cut_where_it_lies():
    layer, x = randomised(passnet.GRU(M, SIZE, matrix=passnet.LowRank(3))), signed(B, M)
    state = signed(1, B, SIZE)
    layer.step(x, state)
    factors = layer.cells[0].recurrent
    # Three gates' halves as if they were whole: the same address, dense, another shape.
    factors.expand.data = factors.expand.data.flatten()[: 3 * SIZE * 2].view(3, SIZE, 2)
    factors.project.data = factors.project.data.flatten()[: 3 * 2 * SIZE].view(3, 2, SIZE)
    assert torch.equal(layer.step(x, state)[0], copy.deepcopy(layer).step(x, state)[0])
