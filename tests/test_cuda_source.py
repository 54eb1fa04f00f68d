"""The CUDA sources compile for every architecture served, on a machine with no GPU."""

from __future__ import annotations

import importlib
import itertools
import re
from pathlib import Path

import pytest
import torch

from passnet.ops.cuda import (
    highway,
    inputs,
    large,
    large_plan,
    small,
    small_plan,
    unitary,
    unitary_plan,
    weights,
    whole,
)
from passnet.ops.cuda.call import Call
from passnet.ops.cuda.compile import SOURCES, CompileError, Nvrtc, read_source

# Multiprocessors and bytes of shared memory a block may take.
CHIPS = {"sm_80": (108, 166912), "sm_90": (132, 232448), "sm_100": (148, 232448)}
CELLS = ("gru_after", "gru_before", "lstm")


@pytest.fixture(scope="module")
def compiler() -> Nvrtc:
    try:
        return Nvrtc()
    except CompileError as error:
        pytest.skip(f"NVRTC is not installed (pip install nvidia-cuda-nvrtc): {error}")


@pytest.mark.parametrize("arch, cell", list(itertools.product(CHIPS, CELLS)))
def test_small_source_compiles(compiler, arch, cell):
    for backward, call in (
        (False, Call(cell, 37, 5, torch.float32, diagonal=True, masks=2, hold=2, hold_cell=1)),
        (True, Call(cell, 40, 9, torch.bfloat16, tied=True, masks=1, hold=1, hold_cell=2)),
        (False, Call(cell, 33, None, torch.float16)),
        (True, Call(cell, 128, None, torch.float32, masks=1)),
        (True, Call(cell, 20, 3, torch.float32, tied=True, masks=2)),
    ):
        layout = small_plan.plan(call, backward=backward, shared_limit=CHIPS[arch][1])
        assert layout is not None
        source = small.source(backward=backward)
        assert compiler.compile(source, arch=arch, options=layout.options())


@pytest.mark.parametrize("arch, cell", list(itertools.product(CHIPS, CELLS)))
def test_large_source_compiles(compiler, arch, cell):
    processors, shared = CHIPS[arch]
    for backward, call in (
        (False, Call(cell, 400, 9, torch.float32, diagonal=True, masks=2, hold=2, hold_cell=1)),
        (True, Call(cell, 500, 13, torch.bfloat16, tied=True, masks=1, hold=1, hold_cell=2)),
        (False, Call(cell, 300, None, torch.float32, masks=2)),
        (True, Call(cell, 300, None, torch.float16, masks=1, hold=1, hold_cell=1)),
    ):
        layout = large_plan.plan(
            call, backward=backward, processors=processors, shared_limit=shared
        )
        assert layout is not None
        source = large.source(backward=backward)
        assert compiler.compile(source, arch=arch, options=layout.options())


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_marks_of_phases_find_their_places(compiler, monkeypatch, cell, backward):
    """What `benchmarks/cuda_phases.py` puts into the text of a pass compiles with it."""
    for folder in ("benchmarks", "tests/gpu"):
        monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / folder))
    with_marks = importlib.import_module("cuda_phases").with_marks
    call = Call(cell, 400, 9, torch.float32, diagonal=True)
    layout = large_plan.plan(call, backward=backward, processors=132, shared_limit=200000)
    assert layout is not None
    source = large.source(backward=backward)
    assert compiler.compile(with_marks(source), arch="sm_90", options=layout.options())
    with pytest.raises(ValueError, match=r"not one place .* SUMMARY\(0\)"):
        with_marks(source.replace("SUMMARY(0)", ""))


@pytest.mark.parametrize("arch", CHIPS)
def test_sources_of_the_weight_gradients_compile(compiler, arch):
    for call in (
        Call("gru_after", 37, 5, torch.float32, diagonal=True, inner_bias=True),
        Call("gru_before", 130, 24, torch.bfloat16, tied=True, masks=1),
        Call("lstm", 600, 64, torch.float16, diagonal=True, tied=True, masks=2),
        Call("gru_after", 3298, 128, torch.float32, diagonal=True, inner_bias=True),
        Call("gru_before", 700, 130, torch.bfloat16, diagonal=True, masks=1),
        Call("lstm", 1740, 300, torch.float32),
        Call("gru_after", 128, None, torch.float32, inner_bias=True),
        Call("gru_before", 131, None, torch.bfloat16, masks=1),
        Call("gru_after", 3298, 128, torch.bfloat16, diagonal=True),
        Call("lstm", 1000, None, torch.float32, masks=2, hold=1, hold_cell=1),
    ):
        options = weights.recurrent_options(call, weights.tiles_of(call))
        assert compiler.compile(weights.source("weight"), arch=arch, options=options)
    for symbols, flag in itertools.product((False, True), (False, True)):
        for units, width, dtype in (
            (50, 9, torch.float32),
            (700, 50, torch.float32),
            (701, 51, torch.float16),
        ):
            cut = inputs.gradient_tiles(units, width, symbols=symbols, dtype=dtype)
            options = inputs.gradient_options(cut, 3, units, dtype, bias=flag, rests=flag)
            text = weights.source("symbol" if symbols else "weight")
            assert compiler.compile(text, arch=arch, options=options)
        options = inputs.drive_options(
            50, 9, torch.float32, symbols=symbols, scale=flag, bias=not flag
        )
        assert compiler.compile(inputs.drive_source(), arch=arch, options=options)
    for dtype, (units, width) in itertools.product(
        (torch.bfloat16, torch.float16), ((3298, 51), (5459, 64), (1000, 16), (140, 17))
    ):
        options = inputs.drive_options(units, width, dtype, symbols=False, scale=False, bias=True)
        assert compiler.compile(inputs.drive_source(wide=True), arch=arch, options=options)


@pytest.mark.parametrize("arch", CHIPS)
def test_source_of_multiplied_factors_compiles(compiler, arch):
    for diagonal, tied in itertools.product((False, True), (False, True)):
        call = Call("gru_after", 128, 50, torch.float32, diagonal=diagonal, tied=tied)
        assert compiler.compile(whole.source(), arch=arch, options=whole.options(call))


@pytest.mark.parametrize("arch", CHIPS)
def test_source_of_the_unitary_scan_compiles(compiler, arch):
    for units, backward in itertools.product((1, 64, 401, 721), (False, True)):
        layout = unitary_plan.plan(units, backward=backward, shared_limit=CHIPS[arch][1])
        assert layout is not None
        source = unitary.source(backward=backward)
        assert compiler.compile(source, arch=arch, options=layout.options())
    assert unitary.refuses(721, shared_limit=CHIPS[arch][1]) is None
    reason = unitary.refuses(5000, shared_limit=CHIPS[arch][1])
    assert "5000 complex units take 340016 bytes" in str(reason)


@pytest.mark.parametrize("arch", CHIPS)
def test_sources_of_the_highway_layer_compile(compiler, arch):
    options = highway.norm_options()
    assert compiler.compile(highway.norm_source(), arch=arch, options=options)
    for activation in ("relu", "tanh"):
        options = highway.gate_options(activation)
        assert compiler.compile(highway.gate_source(), arch=arch, options=options)


def test_instructions_are_written_in_one_file_and_each_has_a_twin_on_the_cpu():
    """The emulation replaces that file, and executes all others as they are."""
    files = [path for path in SOURCES.glob("*.cu*") if "asm" in path.read_text(encoding="utf-8")]
    assert [path.name for path in files] == ["ptx.cuh"]
    twins = (Path(__file__).parent / "emulation" / "cuda.h").read_text(encoding="utf-8")
    names = re.findall(r"__forceinline__ [\w ]+ (\w+)\(", read_source("ptx.cuh"))
    assert len(names) > 10
    assert [name for name in names if not re.search(rf"inline \w[\w ]* {name}\(", twins)] == []


def test_broken_source_is_refused(compiler):
    with pytest.raises(CompileError, match="could not compile for sm_90"):
        compiler.compile("this is not CUDA", arch="sm_90")


def test_every_published_shape_is_served():
    processors, shared = CHIPS["sm_90"]
    for cell, (n, d) in itertools.product(CELLS, [(128, 24), (128, 50), (256, 24), (512, 4)]):
        call = Call(cell, n, d, torch.float32, diagonal=True)
        assert small.refuses(call, shared_limit=shared) is None
    for cell, (n, d) in itertools.product(
        CELLS, [(1000, 64), (1740, 300), (3298, 128), (5459, 64), (6985, 64), (8192, 64)]
    ):
        for tied in (False, True):
            call = Call(cell, n, d, torch.float32, diagonal=True, tied=tied)
            assert large.refuses(call, processors=processors, shared_limit=shared) is None
    for cell, n in itertools.product(CELLS, (129, 256, 1000)):
        call = Call(cell, n, None, torch.float32)
        assert large.refuses(call, processors=processors, shared_limit=shared) is None


def test_refusals_say_what_does_not_fit():
    processors, shared = CHIPS["sm_90"]
    dense = Call("gru_before", 400, None, torch.float32)
    assert "400 units with a dense matrix" in str(small.refuses(dense, shared_limit=shared))
    dense = Call("gru_before", 3298, None, torch.float32)
    reason = large.refuses(dense, processors=processors, shared_limit=shared)
    assert "3298 units with a dense matrix" in str(reason)
    huge = Call("lstm", 8192, 2000, torch.float32)
    reason = large.refuses(huge, processors=processors, shared_limit=shared)
    assert "8192 units with rank 2000" in str(reason)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("planes", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weight_gradients_take_no_more_than_every_chip_grants_a_block(wide, planes, dtype):
    granted = 99 * 1024  # compute capability 8.6 and 8.9
    cuts = (weights.tiles(128, w, wide=wide, dtype=dtype, planes=planes) for w in range(1, 600))
    assert max(cut.shared for cut in cuts) <= granted


def test_a_large_scan_takes_the_smallest_groups_that_fit():
    """Here only with factors in registers, in a layout that comes after others that do not fit."""
    call = Call("gru_after", 11000, 64, torch.float32, diagonal=True)
    for backward in (False, True):
        layout = large_plan.plan(call, backward=backward, processors=132, shared_limit=232448)
        assert layout is not None and layout.tile == 16 and layout.constants["KRP1"] > 0
