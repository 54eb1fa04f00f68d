"""Products made ready for a scan against the plain maps, and how few operations a step takes."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from accuracy import assert_accurate
from scan_calls import Case, backends_of, make_call
from structures import STRUCTURES
from torch.utils._python_dispatch import TorchDispatchMode

import passnet
from passnet.ops.chunks import drives
from passnet.ops.products import Products, prepare, summaries_like
from passnet.ops.scan import ScanCall

GATES = (slice(0, 3), slice(0, 2), slice(2, 3))


@pytest.mark.parametrize("gates", GATES, ids=str)
@pytest.mark.parametrize("masks", [None, "one", "each"])
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.no_grad()
def test_products_are_those_of_the_maps(structure, masks, gates, dtype):
    maps = make_call(Case("gru", structure, masks=masks), dtype).maps
    wide = type(maps)(
        maps.structure.name,
        [factor.double() for factor in maps.factors],
        None if maps.masks is None else maps.masks.double(),
    )
    state = torch.randn(5, 8)
    there, grads = torch.randn(2, gates.stop - gates.start, 5, 8)
    products = ready(maps, gates, state)

    forward = there.clone()
    products.add(forward, state, 1)
    assert_accurate(
        forward.to(dtype),
        reference=(there + maps(state, gates)).to(dtype),
        truth=there.double() + wide(state.double(), gates),
    )

    backward = there[0].clone()
    products.add_transpose(backward, grads, 1)
    own = products.add_diagonal(None, grads.unsqueeze(1))
    assert_accurate(
        (backward if own is None else backward + own[0]).to(dtype),
        reference=(there[0] + maps.transpose(grads, gates)).to(dtype),
        truth=there[0].double() + wide.transpose(grads.double(), gates),
    )


def ready(maps, gates: slice, state: torch.Tensor) -> Products:
    """For a scan of two steps."""
    return prepare(maps, gates, state, *summaries_like(maps, gates, steps=2, batch=len(state)))


def test_diagonals_join_slopes_from_the_first_gate_named():
    maps = make_call(Case("gru", "diagonal")).maps
    products = ready(maps, slice(0, 3), torch.zeros(5, 8, dtype=torch.float64))
    slope, slopes = torch.randn(2, 5, 8).double(), torch.randn(1, 2, 5, 8).double()
    diagonal = maps.factors[2]
    expected = slope + diagonal[1] * slopes[0]
    assert torch.equal(products.add_diagonal(slope, slopes, first=1), expected)
    bare = ready(make_call(Case("gru", "dense")).maps, slice(0, 3), slope[0])
    assert bare.add_diagonal(slope, slopes) is slope and bare.add_diagonal(None, slopes) is None


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_the_drive_of_some_steps_alone(bias):
    narrow, steps = passnet.GRU(3, 8, bias=bias), slice(2, 5)
    layers = narrow, deepcopy(narrow).double()
    for x in (torch.randn(7, 4, 3), torch.randint(0, 3, (7, 4))):
        call, wide = (call_of(layer, x) for layer in layers)
        assert_accurate(
            drives(call)(steps), reference=call.drive[:, steps], truth=wide.drive[:, steps]
        )


def call_of(layer: passnet.GRU, x: torch.Tensor) -> ScanCall:
    cell = layer.cells[0]
    start = torch.zeros(4, 8, dtype=cell.input_weight.dtype)
    source = cell.inputs(x.to(start) if x.is_floating_point() else x, start.dtype)
    return cell.scan(source, (start,), masks=None, holds=(None,))


class Counting(TorchDispatchMode):
    """Counts the operations that compute something; views cost little and no kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("case", "forward", "backward"),
    [
        (Case("gru", "diagonal", "after"), 7, 5),
        (Case("gru", "diagonal tied", "after"), 7, 5),
        (Case("gru", "low-rank", "after"), 6, 5),
        (Case("gru", "dense", "after"), 5, 3),
        (Case("gru", "diagonal", "before"), 10, 11),
        (Case("lstm", "diagonal"), 10, 9),
    ],
    ids=str,
)
@torch.no_grad()
def test_a_step_is_few_operations(case, forward, backward):
    counts = []
    for steps in (4, 8):
        call = make_call(Case(**{**vars(case), "steps": steps}))
        engine = next(b for b in backends_of(call) if b.name == "eager")._engine
        outputs = call.outputs_like()
        with Counting() as ahead:
            found = engine.forward(call)
        grads = [torch.ones_like(output) for output in outputs]
        with Counting() as back:
            engine.backward(call, grads, found[: len(outputs)], found[len(outputs) :])
        counts.append((ahead.count, back.count))
    (few, few_back), (many, many_back) = counts
    assert (many - few) / 4 <= forward
    assert (many_back - few_back) / 4 <= backward
