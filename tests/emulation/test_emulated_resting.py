"""Sequences whose state is held: what emulated kernels pass over, and that it changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from accuracy import assert_accurate
from emulated_scans import (
    CELLS,
    REFERENCE,
    SHUFFLED,
    through_autograd,
    use_tensor_cores,
    where,
)
from emulator import BACKWARDS
from gpu.input_cases import KINDS, made
from gpu.input_cases import cast as cast_inputs
from gpu.scan_cases import Case, cast, kernel, loop, make, scan_of

from passnet.ops.cuda import inputs, large, large_plan, passes, small, weights
from passnet.ops.cuda.call import describe
from passnet.ops.inputs import Inputs

HOLDS = {
    "gru_after": ["rows", "units"],
    "gru_before": ["rows", "units"],
    "lstm": ["rows rows", "units units", "rows none", "none rows", "rows units", "units rows"],
}


@pytest.mark.parametrize("family", [small, large], ids=["small", "large"])
@pytest.mark.parametrize("cell, kinds", [(cell, kinds) for cell in CELLS for kinds in HOLDS[cell]])
def test_what_may_be_passed_over_is_right_through_autograd(
    emulator, monkeypatch, cell, kinds, family
):
    """Steps in which all sequences rest, others in which their cells or some units alone do."""
    case = Case(cell, 20, 4, 12, 8)
    data = cast(make(case, device="cpu"), case.dtype)
    rests = torch.zeros(12, 8, 1)
    rests[5:], rests[3:, 4:] = 1.0, 1.0
    holds = {"rows": rests, "units": rests.repeat(1, 1, 20), "none": None}
    holds["units"][5:, :, ::3] = 0.0
    for name, kind in zip(("hold", "hold_cell"), kinds.split(), strict=False):
        data[name] = holds[kind]
    cuda, call = through_autograd(monkeypatch, case, data, emulator(processors=12), family)
    symbols = torch.randint(0, 6, (12, 8), generator=torch.Generator().manual_seed(1))
    weight, bias = torch.randn(2, case.gates, 20, 6).unbind()
    call = replace(call, source=Inputs(symbols, weight, bias[..., 0]))
    found = []
    plain = REFERENCE[cell]
    for backend, dtype in ((cuda, torch.float32), (plain, torch.float32), (plain, torch.float64)):
        live, fixed, layout = call.flatten()
        live = [tensor.detach().to(dtype).requires_grad_() for tensor in live]
        fixed = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in fixed]
        outputs = backend.run(type(call).unflatten(live, fixed, layout))
        total = sum((output * output).sum() for output in outputs)
        found.append([*outputs, *torch.autograd.grad(total, live)])
    for ours, reference, truth in zip(*found, strict=True):
        assert_accurate(ours, reference=reference, truth=truth)


# Who moves in a step: everybody, the first half of a group or less, nobody, one of the second half.
MOVING = ["all", "all", "half", "few", "none", "few", "last", "half", "none", "all", "half"]


def some_hold(data: dict, batch: int, tile: int) -> None:
    """Sequences are held in some steps, and not only from an end on."""
    hold = torch.ones(len(MOVING), batch, 1)
    for step, who in enumerate(MOVING):
        for first in range(0, batch, tile):
            moving = {
                "all": range(tile),
                "half": range(tile // 2),
                "few": (0, 2),
                "last": (0, tile - 1),
            }
            for one in moving.get(who, ()):
                hold[step, min(first + one, batch - 1)] = 0.0
    hold[3, 1] = 0.5
    data["hold"] = hold.double()
    if data["hold_cell"] is not None:
        data["hold_cell"] = hold.double()


LOW_RANK, ONE_ROW, TWO_ROWS = (6, None), (None, 1), (None, 2)  # rank, rows of blocks
MATRICES = pytest.mark.parametrize("d, down", [LOW_RANK, ONE_ROW, TWO_ROWS])


def use_tiles(monkeypatch, forward: int, backward: int, down: int | None = None) -> None:
    """Has groups of so many sequences scan forwards and backwards, dense in so many rows."""

    def plan(call, *, backward: bool, **limits):
        return large_plan.plan(call, backward=backward, tile=tiles[backward], down=down, **limits)

    tiles = (forward, backward)
    monkeypatch.setattr(large, "plan", plan)


def check_held(case: Case, data: dict, chip) -> None:
    """Against the float64 loop, and the same bits in other orders of threads."""
    single = cast(data, torch.float32)
    truth, plain = loop(case, data), loop(case, single)
    ours = kernel(case, single, **where(chip, large))
    for name in truth:
        assert_accurate(ours[name], reference=plain[name], truth=truth[name], name=name)
    for chip.order in (BACKWARDS, SHUFFLED):
        for name, value in kernel(case, single, **where(chip, large)).items():
            assert torch.equal(value, ours[name]), f"{name} depends on the order of threads"


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tile, batch", [(8, 11), (16, 16), (16, 21), (32, 40)])
@pytest.mark.parametrize("variant", [{}, {"tied": True, "masks": 1}, {"masks": 2}], ids=str)
def test_large_without_those_who_are_held(emulator, monkeypatch, cell, tile, batch, variant):
    use_tiles(monkeypatch, tile, tile)
    case = Case(cell, 37, 6, len(MOVING), batch, hold=1, **variant)
    data = make(case, device="cpu")
    some_hold(data, batch, tile)
    check_held(case, data, emulator(processors=12))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tile, batch", [(8, 11), (16, 21), (32, 40)])
@pytest.mark.parametrize("down, masks", [(1, 1), (2, 0), (3, 2)])
def test_dense_without_those_who_are_held(emulator, monkeypatch, cell, tile, batch, down, masks):
    use_tiles(monkeypatch, tile, tile, down)
    case = Case(cell, 37, None, len(MOVING), batch, hold=1, masks=masks)
    data = make(case, device="cpu")
    some_hold(data, batch, tile)
    check_held(case, data, emulator(processors=12))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tiles", [(8, 16), (16, 8), (16, 32), (32, 16)], ids=str)
@pytest.mark.parametrize("d", [6, None], ids=["low rank", "dense"])
def test_passes_may_be_seated_differently(emulator, monkeypatch, cell, tiles, d):
    use_tiles(monkeypatch, *tiles)
    case = Case(cell, 37, d, 9, 32, hold=1)
    data = make(case, device="cpu")
    hold = (torch.arange(9)[:, None] >= torch.arange(32) % 11).double()[..., None]
    data["hold"], data["hold_cell"] = hold, hold if cell == "lstm" else None
    check_held(case, data, emulator(processors=12))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("size", [1e5, 1e-7])
@MATRICES
def test_groups_that_rest_keep_their_scales(emulator, monkeypatch, cell, size, d, down):
    use_tiles(monkeypatch, 16, 16, down)
    case = Case(cell, 37, d, 8, 16, hold=1)
    data = make(case, device="cpu")
    hold = (torch.arange(8) % 2).double()[:, None, None].expand(8, 16, 1).contiguous()
    data["hold"], data["hold_cell"] = hold, hold if cell == "lstm" else None
    for name in ("grad", "grad_cell"):
        data[name] = data[name] * size
    check_held(case, data, emulator(processors=12))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tile, batch, long", [(16, 16, 8), (16, 27, 16), (32, 32, 16)])
@MATRICES
def test_large_does_not_look_at_what_ended(emulator, monkeypatch, cell, tile, batch, long, d, down):
    """In any order of lengths, the shorter half of each group is left out when it has ended."""
    use_tiles(monkeypatch, tile, tile, down)
    case = Case(cell, 37, d, 9, batch, hold=1)
    data = cast(make(case, device="cpu"), case.dtype)
    lengths = torch.full((batch,), 4)
    lengths[torch.randperm(batch, generator=torch.Generator().manual_seed(0))[:long]] = 7
    ended = torch.arange(9)[:, None] >= lengths
    data["hold"] = ended.float()[..., None]
    if cell == "lstm":
        data["hold_cell"] = data["hold"]
    chip = emulator(processors=12)
    expected = kernel(case, data, **where(chip, large))
    data["drive"][:, ended] = float("nan")
    for name, value in kernel(case, data, **where(chip, large)).items():
        assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_stages_of_held_rows_are_passed_over(emulator, monkeypatch, cell, wide):
    """What no step of a sequence wrote may be anything: here, where all eight have ended."""
    if wide:
        use_tensor_cores(monkeypatch)
    case = Case(cell, 20, 6, 80, 8, hold=1)
    data = cast(make(case, device="cpu"), case.dtype)
    data["hold"] = torch.zeros(80, 8, 1)
    data["hold"][3:70] = 1.0  # with 32 stages that add nothing, and some that do behind them
    data["hold"][75:, 1:] = 1.0
    if cell == "lstm":
        data["hold_cell"] = data["hold"]
    engine, call = scan_of(case, data, **where(emulator(processors=1), small))
    count = 2 if cell == "lstm" else 1
    kept = engine.forward(call)
    outputs, saved = kept[:count], kept[count:]
    found, chip = describe(call, cell), emulator(processors=1)
    grads = [data["grad"], data["grad_cell"]][:count]
    drive = torch.empty(call.shape)
    given, summaries = passes.given(call, call.factors), saved[-1]
    _, back = passes.backward(chip, small, found, given, grads, outputs, saved, grad_drive=drive)

    def gradients() -> list[torch.Tensor]:
        return weights.recurrent_gradients(
            chip, found, given, drive, outputs[0], saved, grad_summaries=back
        )

    expected = gradients()
    summaries[3:70], back[3:70], drive[:, 3:70] = (float("nan"),) * 3
    for got, wanted in zip(gradients(), expected, strict=True):
        assert torch.equal(got, wanted) and got.abs().sum() > 0


@pytest.mark.parametrize("kind, scaled", KINDS)
@pytest.mark.parametrize("cell", ["gru_after", "lstm"])
def test_input_gradients_pass_over_held_rows(emulator, kind, scaled, cell):
    gates, rows = (4 if cell == "lstm" else 3), (80, 8)
    exact, grad = made((gates, *rows, 20, 6), kind, scaled, True, torch.float32, "cpu")
    given, grad, chip = cast_inputs(exact, torch.float32), grad.float(), emulator(processors=1)
    hold = torch.zeros(*rows, 1)
    hold[3:70] = 1.0
    hold[75:, 1:] = 1.0
    grad = grad * (1 - hold)
    truth, plain = exact.gradients(grad.double()), given.gradients(grad)
    expected = inputs.gradients(given, grad, chip)
    grad[:, 3:70] = float("nan")
    holds = (hold, hold if cell == "lstm" else None)
    weight, bias = inputs.gradients(given, grad, chip, holds=holds)
    assert torch.equal(weight, expected[0]) and weight.abs().sum() > 0
    # Rows of symbols are added up in groups of those that do not rest: not the same bits.
    assert_accurate(bias, reference=plain[1], truth=truth[1])
