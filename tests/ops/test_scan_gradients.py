"""First and second derivatives of every scan, by finite differences in double precision."""

from __future__ import annotations

import pytest
import torch
from scan_calls import Case, backend_names, grid, make_call, run_by_name
from structures import MAIN, STRUCTURES
from torch.autograd import gradcheck, gradgradcheck

SMALL = {"steps": 3, "batch": 2}
GRID = [Case(**{**vars(case), **SMALL}) for case in grid(*MAIN)]
OTHERS = [
    Case(cell, name, reset, masks="each", hold="units", **SMALL)
    for name in STRUCTURES
    if name not in MAIN
    for cell, reset in (("gru", "before"), ("gru", "after"), ("lstm", "after"))
]
THOROUGH = [
    Case("gru", "diagonal tied", "before", masks="one", hold="units", steps=2, batch=1),
    Case("gru", "diagonal", "after", masks="each", hold="units", inner_bias=True, steps=2, batch=1),
    Case("lstm", "diagonal tied", masks="one", hold="units", steps=2, batch=1),
]


def function_of(call, backend: str):
    live, fixed, layout = call.flatten()
    run_by_name(call, backend)

    def scan(*live):
        return tuple(run_by_name(type(call).unflatten(live, fixed, layout), backend))

    return scan, tuple(live)


def compiled_backends(cases):
    """All but the plain loop, whose derivatives are autograd's."""
    return pytest.mark.parametrize(
        ("case", "backend"),
        [
            pytest.param(case, name, id=f"{case} {name}")
            for case in cases
            for name in backend_names(case.cell, case.structure)
            if name != "reference"
        ],
    )


@compiled_backends([*GRID, *OTHERS])
def test_first_derivative(case, backend):
    scan, live = function_of(make_call(case), backend)
    assert gradcheck(scan, live, fast_mode=True)


@compiled_backends([*GRID, *OTHERS])
def test_second_derivative(case, backend):
    scan, live = function_of(make_call(case), backend)
    assert gradgradcheck(scan, live, fast_mode=True)


@compiled_backends(THOROUGH)
def test_every_entry_of_the_jacobian(case, backend):
    scan, live = function_of(make_call(case), backend)
    assert gradcheck(scan, live)


@compiled_backends([Case("gru", "rank 1", "before", **SMALL), Case("lstm", "rank 1", **SMALL)])
def test_derivatives_of_a_loss_that_is_not_linear(case, backend):
    """Then the gradients that flow in depend on the inputs themselves: second order, and third."""
    call = make_call(case)
    scan, live = function_of(call, backend)

    def slope(initial):
        outputs = scan(live[0], initial, *live[2:])
        return torch.autograd.grad(outputs[0].square().sum(), initial, create_graph=True)

    assert gradcheck(slope, live[1])
    assert gradgradcheck(slope, live[1])


@compiled_backends([Case("gru", "low-rank", "before", **SMALL), Case("lstm", "low-rank", **SMALL)])
def test_tensors_without_gradient_are_left_alone(case, backend):
    call = make_call(case)
    for tensor in call.flatten()[0][1:]:
        tensor.requires_grad_(False)
    sum(output.sum() for output in run_by_name(call, backend)).backward()
    assert call.drive.grad is not None
    assert all(tensor.grad is None for tensor in call.flatten()[0][1:])
