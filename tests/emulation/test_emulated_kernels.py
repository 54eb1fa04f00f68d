"""The text of the CUDA kernels, executed on a CPU, against a float64 loop.

Each case also runs with its threads in other orders between barriers and has to give the same bits:
a missing barrier shows as a difference.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from accuracy import assert_accurate
from emulated_scans import (
    BFLOAT16,
    CELLS,
    CRAMPED,
    FLOAT16,
    ROWS,
    check,
    scaled,
    use_tensor_cores,
    where,
)
from gpu import scan_cases
from gpu.scan_cases import Case, cast, kernel, loop, make, scan_of, strided

from passnet.ops.cuda import Call, families, large, large_plan, small, weights, whole
from passnet.ops.cuda.call import describe
from passnet.ops.cuda.small_plan import candidates

SHAPES = [
    # n, d, steps, batch: the first three are small, the others need every way to spread a product
    (5, 1, 6, 3), (37, 3, 5, 3), (130, 8, 3, 2), (60, 33, 3, 2), (130, 24, 2, 1), (128, 50, 2, 1),
    (513, 3, 2, 1), (37, None, 4, 2), (128, None, 2, 1),
]  # fmt: skip
VARIANTS = [
    {"diagonal": False}, {"tied": True}, {"masks": 1}, {"masks": 2}, {"tied": True, "masks": 1},
    {"tied": True, "masks": 2, "diagonal": False}, {"hold": 1}, {"hold": 2, "masks": 2},
]  # fmt: skip
DENSE_VARIANTS = [{"masks": 1}, {"masks": 2, "hold": 1}, {"hold": 2}]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_small_shapes(emulator, cell, shape):
    check(Case(cell, *shape, inner=cell == "gru_after"), emulator(), small)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("family", [small, whole], ids=["factors", "whole"])
def test_small_variants(emulator, cell, variant, family):
    check(Case(cell, 37, 8, 4, 3, **variant), emulator(), family)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("variant", DENSE_VARIANTS, ids=str)
def test_dense_variants(emulator, cell, variant):
    check(Case(cell, 37, None, 4, 3, **variant), emulator())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shape", [(128, 50, 2, 1), (37, 30, 4, 2), (5, 5, 6, 3)], ids=str)
def test_whole_matrices_of_a_high_rank(emulator, cell, shape):
    check(Case(cell, *shape, inner=cell == "gru_after"), emulator(), whole)


def test_whole_matrices_where_they_take_fewer_cycles(emulator):
    def family(n, d, cell="gru_after", **others):
        call = Call(cell, n, d, **{"dtype": torch.float32, "diagonal": True} | others)
        return families.fastest_family(call, emulator())

    assert family(128, 50) is whole and family(128, 50, masks=2, tied=True) is whole
    assert family(128, 128) is whole  # as factors they do not fit one multiprocessor
    assert family(128, 24) is small and family(128, 24, "gru_before") is small
    assert family(256, 24) is small and family(128, None) is small
    assert family(128, 50, dtype=BFLOAT16) is small  # rounded, they would be other matrices


@pytest.mark.parametrize(
    "cell, dtype", list(zip(CELLS, (BFLOAT16, FLOAT16, BFLOAT16), strict=True))
)
def test_small_in_sixteen_bits(emulator, cell, dtype):
    check(Case(cell, 37, 3, 5, 3, masks=1, hold=2, dtype=dtype), emulator())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "shape, processors",
    [((37, 3, 5, 3), 12), ((5, 1, 5, 2), 12), ((40, 8, 3, 20), 8), ((40, 3, 3, 40), 4)],
    ids=["three blocks", "a unit or two each", "three groups", "two launches"],
)
def test_large_shapes(emulator, cell, shape, processors):
    case = Case(cell, *shape, inner=cell == "gru_after")
    check(case, emulator(processors=processors), large)


@pytest.mark.parametrize("cell", CELLS)
def test_large_where_not_everything_fits(emulator, cell):
    call = Call(cell, 64, 33, torch.float32, diagonal=True)
    for backward in (False, True):
        plan = large_plan.plan(call, backward=backward, processors=4, shared_limit=CRAMPED[cell])
        assert plan is not None and plan.constants["NCH1"] > 1 and plan.constants["KRP1"] > 0
    chip = emulator(processors=4, shared_limit=CRAMPED[cell])
    check(Case(cell, 64, 33, 3, 3), chip, large)


@pytest.mark.parametrize("cell", CELLS)
def test_dense_where_not_everything_fits(emulator, cell):
    call = Call(cell, 64, None, torch.float32)
    for backward in (False, True):
        plan = large_plan.plan(call, backward=backward, processors=4, shared_limit=40000)
        assert plan is not None and plan.constants["KRP1"] > 0
    chip = emulator(processors=4, shared_limit=40000)
    check(Case(cell, 64, None, 3, 3), chip, large)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_large_variants(emulator, cell, variant):
    check(Case(cell, 37, 8, 4, 3, **variant), emulator(processors=12), large)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "shape, processors, variant",
    [
        ((5, None, 5, 2), 12, {}),
        ((40, None, 3, 20), 8, {}),
        ((40, None, 4, 40), 4, {"masks": 1}),
        ((37, None, 5, 3), 12, {"masks": 2, "hold": 2}),
        ((37, None, 4, 3), 12, {"masks": 1, "hold": 1, "dtype": BFLOAT16}),
    ],
    ids=str,
)
def test_dense_over_several_blocks(emulator, cell, shape, processors, variant):
    check(Case(cell, *shape, **variant), emulator(processors=processors), large)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "shape, processors, tile, down, variant",
    [
        ((37, None, 5, 3), 12, 32, 3, {"masks": 2, "hold": 1}),
        ((37, None, 4, 3), 12, 32, 12, {"hold": 2}),
        ((70, None, 4, 20), 8, 16, 2, {"masks": 1}),
        ((70, None, 4, 40), 8, 16, 2, {"dtype": FLOAT16}),
        ((5, None, 5, 2), 12, 8, 2, {}),
    ],
    ids=[
        "three rows of four",
        "one column",
        "two groups of two by two",
        "two launches",
        "few units",
    ],
)
def test_dense_in_rows_of_blocks(
    emulator, monkeypatch, cell, shape, processors, tile, down, variant
):
    layouts = []

    def planned(call, **about):
        layouts.append(large_plan.plan(call, **about, tile=tile, down=down))
        return layouts[-1]

    monkeypatch.setattr(large, "plan", planned)
    check(Case(cell, *shape, **variant), emulator(processors=processors), large)
    assert {layout.blocks // layout.constants["ACROSS"] for layout in layouts} == {down}


@pytest.mark.parametrize(
    "cell, dtype", [("gru_after", FLOAT16), ("gru_before", BFLOAT16), ("lstm", FLOAT16)]
)
def test_large_in_sixteen_bits(emulator, cell, dtype):
    case = Case(cell, 37, 3, 5, 3, masks=1, hold=2, dtype=dtype)
    check(case, emulator(processors=12), large)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "tile, units, variant",
    [
        (8, 100, {}),
        (8, 100, {"masks": 2, "hold": 2}),
        (16, 50, {"masks": 1, "hold": 1, "tied": True}),
    ],
    ids=["plain", "masks and zoneout", "halves that rest"],
)
def test_pairs_of_units(emulator, monkeypatch, cell, tile, units, variant):
    """So many units of a block that a lane has two side by side, read and written at once."""
    layouts = []

    def planned(call, **about):
        layouts.append(large_plan.plan(call, **about, tile=tile))
        return layouts[-1]

    monkeypatch.setattr(large, "plan", planned)
    case, chip = Case(cell, 200, 3, 4, 18, **variant), emulator(processors=8)
    check(case, chip, large)
    assert {layout.constants["UNITS"] for layout in layouts} == {units}
    data = cast(make(case, device="cpu"), case.dtype)
    expected = kernel(case, data, **where(chip, large))
    for way in strided(data):
        for name, value in kernel(case, way, given=True, **where(chip, large)).items():
            assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize("cell", CELLS)
def test_weight_gradients_of_many_rows(emulator, cell):
    """Several chunks of rows, and more columns than a tile has."""
    check(Case(cell, 37, 3, 33, 4, inner=cell == "gru_after"), emulator(), small)
    check(Case(cell, 37, None, 33, 4, inner=cell == "gru_after"), emulator(), small)
    check(Case(cell, 20, 70, 2, 2, masks=1), emulator(processors=12), large)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "shape, variant",
    [
        # Units that do not fill tiles, ranks between steps of eight columns, rows between stages
        ((37, 5, 3, 3), {}),
        ((140, 50, 3, 3), {"tied": True}),
        ((20, 130, 5, 4), {"masks": 1}),
        ((20, 13, 33, 4), {"diagonal": False}),
        ((37, 24, 4, 3), {"masks": 2}),
        ((37, 24, 4, 3), {"tied": True, "masks": 1, "diagonal": False}),
        ((37, 24, 4, 3), {"tied": True, "masks": 2}),
        ((37, 24, 4, 3), {"masks": 1, "hold": 2, "dtype": BFLOAT16}),
        ((37, 24, 4, 3), {"masks": 2, "tied": True, "dtype": FLOAT16}),
        ((37, 24, 4, 3), {"dtype": FLOAT16}),
        ((140, None, 3, 3), {"masks": 2}),
        ((37, None, 9, 3), {"hold": 1, "dtype": FLOAT16}),
        ((20, None, 33, 4), {"masks": 1, "hold": 1}),
    ],
    ids=str,
)
def test_weight_gradients_on_tensor_cores(emulator, monkeypatch, cell, shape, variant):
    use_tensor_cores(monkeypatch)
    case = Case(cell, *shape, inner=cell == "gru_after", **variant)
    check(case, emulator(processors=12), large)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_of_many_dense_units_are_plain_products(emulator, monkeypatch, cell):
    many = Call(cell, 1000, None, torch.float32)
    assert not weights.sums_up(many)
    assert weights.sums_up(replace(many, hold=1, hold_cell=1))  # some rows may rest
    monkeypatch.setattr(weights, "MANY_DENSE_UNITS", 37)
    assert weights.sums_up(replace(many, units=36))
    monkeypatch.setattr(weights, "recurrent_options", None)  # not asked for
    check(Case(cell, 37, None, 4, 3, masks=2, inner=cell == "gru_after"), emulator())


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("n, dtype", ROWS, ids=str)
def test_weight_gradients_whatever_divides_a_row(emulator, monkeypatch, n, dtype, wide):
    """Copies of sixteen bytes and less; several chunks of rows, the last of them odd."""
    if wide:
        use_tensor_cores(monkeypatch)
    check(Case("gru_before", n, 6, 47, 3, masks=1, dtype=dtype), emulator())


class SmallWith:
    """The small scan in a layout that its planner did not choose."""

    def __init__(self, rank: int, **constants: int) -> None:
        self.rank, self.constants = rank, constants

    def launch(self, chip, call, arguments, like, *, hold, backward, layout=None) -> None:
        found = candidates(call, backward=backward, shared_limit=chip.shared_limit)
        layout = found[self.rank]
        layout = replace(layout, constants=layout.constants | self.constants)
        small.launch(chip, call, arguments, like, hold=hold, backward=backward, layout=layout)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("rank", range(1, 6))
def test_other_layouts(emulator, cell, rank):
    check(Case(cell, 40, 9, 3, 1), emulator(), SmallWith(rank))


@pytest.mark.parametrize("cell", CELLS)
def test_offsets_beyond_32_bits(emulator, cell):
    check(Case(cell, 40, 9, 3, 1), emulator(), SmallWith(0, WIDE=1))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("family", [small, whole, large], ids=["small", "whole", "large"])
def test_strided_tensors(emulator, cell, family):
    case, chip = Case(cell, 20, 4, 3, 2, masks=2, hold=2), emulator(processors=12)
    data = cast(make(case, device="cpu"), case.dtype)
    expected = kernel(case, data, **where(chip, family))
    for way in strided(data):
        for name, value in kernel(case, way, given=True, **where(chip, family)).items():
            assert torch.equal(value, expected[name]), name


def drawn(chance: random.Random) -> tuple[Case, dict, ModuleType]:
    """A random scan, the size of a chip that can hold it, and the family that serves it there."""
    while True:
        cell, family = chance.choice(CELLS), chance.choice([small, large])
        n, d = chance.randint(9, 300), chance.choice([1, 2, 3, 5, 8, 13, 16, 17, 24, 33, 50, 65])
        case = Case(
            cell, n, d if chance.random() < 0.8 else None,
            chance.randint(1, 5), chance.choice([1, 2, 3, 9, 17] if family is large else [1, 2, 3]),
            diagonal=chance.random() < 0.5, masks=chance.choice([0, 0, 1, 2]),
            hold=chance.choice([0, 0, 1, 2]), inner=cell == "gru_after" and chance.random() < 0.5,
            dtype=chance.choice([torch.float32] * 3 + [BFLOAT16, FLOAT16]),
            scale=chance.choice([1.0, 1.0, 0.05, 3.0]),
        )  # fmt: skip
        if case.d is not None:
            case = replace(case, tied=chance.random() < 0.4)
        size = {"shared_limit": 232448}
        if family is large:
            size["shared_limit"] = chance.choice([232448, 100000, 60000, 40000, 30000, 20000])
            size["processors"] = chance.choice([4, 5, 8, 12, 16])
        found = describe(scan_of(case, make(case, device="cpu"))[1], cell)
        if family.refuses(replace(found, dtype=case.dtype), **size) is None:
            return case, size, family


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_scans(emulator, seed):
    case, size, family = drawn(random.Random(seed))
    check(case, emulator(**size), family)


def assert_right(case: Case, data: dict, got: dict, names, part=...) -> None:
    """The accuracy rule, for a part of each of these results."""
    truth, plain = loop(case, cast(data, torch.float64)), loop(case, data)
    for name in names:
        ours, reference, exact = (side[name][part] for side in (got, plain, truth))
        assert_accurate(ours, reference=reference, truth=exact, name=f"{name} {part}")


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("d", [9, None], ids=["low rank", "dense"])
@pytest.mark.parametrize("dtype", [torch.float32, BFLOAT16], ids=str)
def test_large_keeps_sequences_apart(emulator, cell, d, dtype):
    """Each has scales of its own, or none: its neighbours cannot take its digits."""
    case = Case(cell, 40, d, 6, 3, dtype=dtype)
    data, chip = cast(scaled(case), case.dtype), emulator(processors=12)
    got = kernel(case, data, **where(chip, large))
    for b in range(case.batch):
        names = [n for n in ("states", "cells", "grad_drive", "grad_h0", "grad_c0") if n in got]
        assert_right(case, data, got, names, (..., b, slice(None)))
    data["grad"][:, 0] *= 1e10
    data["grad"][:, 2] = torch.nan
    again = kernel(case, data, **where(chip, large))
    assert torch.equal(again["grad_drive"][:, :, 1], got["grad_drive"][:, :, 1])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("size", [2.0**-90, 2.0**60])
@pytest.mark.parametrize("dtype", [torch.float32, BFLOAT16], ids=str)
def test_gradients_of_any_size(emulator, monkeypatch, cell, size, dtype):
    use_tensor_cores(monkeypatch)
    case = Case(cell, 40, 20, 6, 3, dtype=dtype)
    data, chip = cast(make(case, device="cpu"), case.dtype), emulator(processors=12)
    for name in ("grad", "grad_cell"):
        data[name] = data[name] * size
    got = kernel(case, data, **where(chip, large))
    assert_right(case, data, got, got)


@pytest.mark.parametrize("cell", CELLS)
def test_masks_far_above_one(emulator, cell):
    """Matrices are as much smaller as masks are larger: what enters the gates stays as it was."""
    case = Case(cell, 40, 9, 6, 3, masks=2)
    data, chip = cast(make(case, device="cpu"), case.dtype), emulator(processors=12)
    left, right, diagonal = data["factors"]
    data["masks"] = data["masks"] * 128
    data["factors"] = (left / 128, right, diagonal / 128)
    got = kernel(case, data, **where(chip, large))
    assert_right(case, data, got, got)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_that_shrink_from_step_to_step(emulator, cell):
    """Nothing is carried and the matrices are small: each step has a scale of its own."""
    case = Case(cell, 40, 8, 6, 3, diagonal=False)
    data, chip = cast(make(case, device="cpu"), case.dtype), emulator(processors=12)
    data["drive"][1] -= 8
    data["factors"] = (data["factors"][0] * 1e-3, data["factors"][1])
    for name in ("grad", "grad_cell"):
        data[name][:-1] = 0
    got = kernel(case, data, **where(chip, large))
    for step in range(case.steps):
        assert_right(case, data, got, ["grad_drive"], (slice(None), step))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("d", [8, None], ids=["low rank", "dense"])
def test_gradients_may_vanish(emulator, cell, d):
    """Down to the smallest numbers there are, and to nothing."""
    case = Case(cell, 40, d, 8, 3)
    data, chip = cast(make(case, device="cpu"), case.dtype), emulator(processors=12)
    sizes = torch.tensor([1e-36, 1e-37, 5e-38, 2e-38, 1e-39, 1e-42, 1e-45, 0.0])[:, None, None]
    for name in ("grad", "grad_cell"):
        data[name] = data[name] * sizes
    got = kernel(case, data, **where(chip, large))
    truth = loop(case, cast(data, torch.float64))
    for name in ("grad_drive", "grad_h0"):
        allowed = 1e-6 * truth[name].abs() + 1e-41
        assert ((got[name] - truth[name]).abs() <= allowed).all(), name


def test_the_median_of_many_draws_finds_what_is_always_worse(monkeypatch):
    """And one draw in which errors grew by chance does not decide."""

    def judged(spoil) -> float:
        monkeypatch.setattr(scan_cases, "kernel", lambda case, data: spoil(loop(case, data)))
        return scan_cases.worst_of_many(Case("gru_after", 64, 4, 12, 3), device="cpu")[0]

    def worse(by: float, found: dict) -> dict:
        return {name: value * (1 + by) for name, value in found.items()}

    def once(usual: float, otherwise: float):
        draws = itertools.count()
        return lambda found: worse(otherwise if next(draws) == 7 else usual, found)

    assert judged(lambda found: found) < 1
    assert judged(once(0.0, 1e-2)) < 1
    assert judged(once(1e-5, 0.0)) > 1
