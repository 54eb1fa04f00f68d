"""Memory that the passes of an emulated scan share, and graphs that are differentiated again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from emulated_scans import (
    CELLS,
    through_autograd,
    where,
)
from gpu.scan_cases import Case, cast, formed, make, scan_of

from passnet.ops.cuda import inputs, large, small, weights
from passnet.ops.inputs import Inputs


def gates_of(saved: list[torch.Tensor]) -> torch.Tensor:
    return next(tensor for tensor in saved if tensor.dim() == 4 and len(tensor) > 1)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int32)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("family", [small, large], ids=["small", "large"])
@pytest.mark.parametrize("d", [4, None], ids=["low rank", "dense"])
def test_gradients_take_the_place_of_gates_where_nobody_reads_them_again(emulator, cell, family, d):
    inner = cell == "gru_after"
    case = Case(cell, 21, d, 3, 3, masks=2, hold=1, inner=inner)  # planes at odd addresses
    data = cast(make(case, device="cpu"), case.dtype)
    engine, call = scan_of(case, data, **where(emulator(processors=12), family))
    before = data["drive"].clone()
    # A drive that was given belongs to the caller, and so does its gradient.
    for source, shared in ((data["drive"], False), (formed(data["drive"]), True)):
        call = replace(call, source=source)
        kept = engine.forward(call)
        assert torch.equal(data["drive"], before)
        outputs, saved = kept[: call.output_count], kept[call.output_count :]
        grads = [data["grad"], data["grad_cell"]][: call.output_count]
        copies = [bits(tensor).clone() for tensor in kept]  # the fourth plane may be anything
        expected = engine.backward(call, grads, outputs, saved)
        assert all(map(torch.equal, map(bits, kept), copies))
        found = engine.last_backward(call, grads, outputs, saved)
        assert all(map(torch.equal, found, expected))
        places = [tensor.untyped_storage().data_ptr() for tensor in (gates_of(saved), found[0])]
        assert (places[0] == places[1]) == shared


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("family", [small, large], ids=["small", "large"])
@pytest.mark.parametrize("d", [4, None], ids=["low rank", "dense"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("few", [1, 512], ids=["plain products", "sums"])
def test_an_initial_state_that_is_not_given_is_zero(
    emulator, monkeypatch, cell, family, d, dtype, few
):
    monkeypatch.setattr(weights, "MANY_DENSE_UNITS", few)
    case = Case(cell, 21, d, 3, 3, masks=2, inner=cell == "gru_after", dtype=dtype)
    data = cast(make(case, device="cpu"), case.dtype)
    engine, call = scan_of(case, data, **where(emulator(processors=12), family))
    unset = {"initial": None} | ({"initial_cell": None} if cell == "lstm" else {})
    count, found = call.output_count, []
    for given in (replace(call, **unset), replace(call, **unset).started()):
        kept = engine.forward(given)
        grads = [data["grad"], data["grad_cell"]][:count]
        drive, *rest = engine.backward(given, grads, kept[:count], kept[count:])
        found.append([*kept[:count], drive, *(rest if given.initial is None else rest[count:])])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("source", ["given", "narrow", "wide"])
def test_a_graph_that_is_retained_can_be_differentiated_again(emulator, monkeypatch, cell, source):
    case = Case(cell, 20, 4, 3, 2, masks=1, inner=cell == "gru_after")
    data = cast(make(case, device="cpu"), case.dtype)
    cuda, call = through_autograd(monkeypatch, case, data, emulator())
    width = {"narrow": 6, "wide": inputs.WIDEST + 1}.get(source)
    if width is not None:
        x, weight = torch.randn(3, 2, width), torch.randn(case.gates, 20, width) / width
        call = replace(call, source=Inputs(x, weight, None, None, needs_gradient=True))
    live = [tensor.requires_grad_() for tensor in call.flatten()[0]]
    outputs = cuda.run(call)
    grads = [data["grad"], data["grad_cell"]][: len(outputs)]
    expected = torch.autograd.grad(outputs, live, grads, retain_graph=True)
    for _ in range(2):
        again = torch.autograd.grad(outputs, live, grads, retain_graph=True)
        assert all(map(torch.equal, again, expected))
    for graph in (outputs, cuda.run(call)):  # one of which nothing was overwritten yet
        for _ in range(2):
            differentiable = torch.autograd.grad(graph, live, grads, create_graph=True)
            assert all(map(torch.equal, differentiable, expected))


@pytest.mark.parametrize("used", ["hidden", "cells"])
@pytest.mark.parametrize("family", [small, large], ids=["small", "large"])
def test_an_output_that_nothing_uses_has_no_gradient(emulator, family, used):
    case = Case("lstm", 20, 4, 3, 2)
    data = cast(make(case, device="cpu"), case.dtype)
    engine, call = scan_of(case, data, **where(emulator(processors=12), family))
    kept = engine.forward(call)
    nothing = torch.zeros_like(data["grad"])
    if used == "hidden":
        filled, grads = [data["grad"], nothing], [data["grad"], None]
    else:
        filled, grads = [nothing, data["grad"]], [None, data["grad"]]
    expected = engine.backward(call, filled, kept[:2], kept[2:])
    found = engine.last_backward(call, grads, kept[:2], kept[2:])
    assert all(map(torch.equal, found, expected))
