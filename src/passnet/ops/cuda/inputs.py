"""The input matrices on a GPU: the drive of a whole sequence, and their gradients."""

from __future__ import annotations

from functools import cache, lru_cache
from math import ceil

import torch
from torch import Tensor

from passnet.ops.cuda.call import ELEMENTS
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.compile import macros, read_source
from passnet.ops.cuda.launches import Launches
from passnet.ops.cuda.tensors import aligned, dense
from passnet.ops.cuda.weights import (
    CHUNK_COST,
    MANY_UNITS,
    RESERVED,
    SHARED_EACH,
    Sums,
    Tiles,
    sums_of,
    tiles,
)
from passnet.ops.cuda.weights import ROWS as STAGE
from passnet.ops.inputs import Inputs, Source

UNITS, ROWS, THREADS = 128, 32, 128
WIDEST = 64
"""Columns of an input matrix that the kernels hold on chip; beyond, ordinary products serve."""
WIDE = 16
"""From here on, for many units, tensor cores form the gradient of features, and in sixteen bits
what they give to the gates: below, the few products are not what takes the time."""
WIDE_UNITS, WIDE_RESIDENT = 256, 3
"""Units of a block that forms the drive on tensor cores, and how many of them a multiprocessor has
registers for. Rows of a tile and threads are as many as without."""
LIST = 16 * (UNITS + 1)
"""Bytes of a list of rows, and of its counts, beside the sums of symbols."""
BLOCKS_EACH = 8
"""Blocks on a multiprocessor, all of which run at once: fewer where shared memory is short."""


def serves(inputs: Inputs) -> bool:
    """Whether the kernels here take these inputs."""
    narrow = inputs.weight.shape[-1] <= WIDEST
    return narrow and inputs.weight.dtype in ELEMENTS and inputs.x.numel() > 0


def drive_source(*, wide: bool = False) -> str:
    """The text of the forward kernel, `form_drive` or on tensor cores `form_wide_drive`."""
    return read_source("ptx.cuh", "common.cuh", "wide_drive.cu" if wide else "drive.cu")


@cache
def drive_options(
    units: int, width: int, dtype: torch.dtype, *, symbols: bool, scale: bool, bias: bool
) -> tuple[str, ...]:
    """The macros of the forward kernel."""
    constants = {"IO_TYPE": ELEMENTS[dtype], "N": units, "WIDTH": width}
    constants |= {"SYMBOLS": int(symbols), "SCALE": int(scale), "BIAS": int(bias)}
    return macros(constants)


@cache
def _drive_kernel(options: tuple[str, ...], chip: Chip) -> Launches:
    return chip.kernel(drive_source(), "form_drive", options=options, shared=0)


@cache
def _wide_drive_kernel(options: tuple[str, ...], shared: int, chip: Chip) -> Launches:
    text = drive_source(wide=True)
    return chip.kernel(text, "form_wide_drive", options=options, shared=shared)


def drive_of(source: Source, chip: Chip, *, out: Tensor | None = None) -> Tensor:
    """What a source gives to every gate at every step; in `out`, if inputs form it."""
    if isinstance(source, Tensor):
        return aligned(source)
    return form_drive(source, chip, out=out) if serves(source) else source.drive(out)


def form_drive(inputs: Inputs, chip: Chip, *, out: Tensor | None = None) -> Tensor:
    """`inputs.drive()` in one pass."""
    x, weight = dense(inputs.x), dense(inputs.weight)
    bias, scale = dense(inputs.bias), dense(inputs.scale)
    drive = weight.new_empty(inputs.shape) if out is None else out
    symbols, rows = not x.is_floating_point(), x.shape[0] * x.shape[1]
    sizes = (*weight.shape, weight.dtype, symbols, scale is not None, bias is not None)
    kernel, grid, each, wide = _drive_launch(sizes, rows, chip)
    given = [x] if wide else [None if symbols else x, x if symbols else None, scale]
    given = [*given, weight, bias, drive, rows, each]
    kernel.launch(grid, THREADS, given)
    return drive


@lru_cache(4096)
def _drive_launch(sizes: tuple, rows: int, chip: Chip) -> tuple[Launches, tuple, int, bool]:
    """The kernel, its grid, the rows of a block, and whether tensor cores multiply."""
    gates, units, width, dtype, symbols, scale, bias = sizes
    options = drive_options(units, width, dtype, symbols=symbols, scale=scale, bias=bias)
    wide = not symbols and dtype.itemsize == 2 and width >= WIDE and units >= MANY_UNITS
    if wide:
        # Two tiles of rows and their results; the kernel says why rows are so far apart.
        shared = 2 * 2 * ROWS * (16 * (ceil(width / 16) | 1) + WIDE_UNITS + 8)
        kernel = _wide_drive_kernel(options, shared, chip)
        resident = min(WIDE_RESIDENT, SHARED_EACH // (shared + RESERVED))
    else:
        shared = 4 * width * (UNITS + 1 + (0 if symbols else ROWS)) + RESERVED
        kernel = _drive_kernel(options, chip)
        resident = min(BLOCKS_EACH, SHARED_EACH // shared)
    across = ceil(units / (WIDE_UNITS if wide else UNITS))
    wanted = chip.processors * resident // (across * gates) or 1
    each = ceil(ceil(rows / min(wanted, ceil(rows / ROWS))) / ROWS) * ROWS
    return kernel, (across, gates, ceil(rows / each)), each, wide


@cache
def gradient_tiles(units: int, width: int, *, symbols: bool, dtype: torch.dtype) -> Tiles:
    """How the gradients of input matrices are cut; symbols all have their sums in one tile."""
    if not symbols:
        return tiles(units, width, wide=width >= WIDE and units >= MANY_UNITS, dtype=dtype)
    shared = 4 * width * (UNITS + 1)
    resident = min(BLOCKS_EACH, SHARED_EACH // (shared + LIST + RESERVED))
    each = ceil(units / UNITS)
    return Tiles((("WIDTH", width),), UNITS, shared, each, STAGE, CHUNK_COST, resident)


@cache
def gradient_options(
    cut: Tiles,
    gates: int,
    units: int,
    dtype: torch.dtype,
    *,
    bias: bool,
    rests: bool = False,
) -> tuple[str, ...]:
    """The macros for the gradients of input matrices; `rests`: of sequences that may rest."""
    constants = {"IO_TYPE": ELEMENTS[dtype], "CELL": {2: 3, 3: 0, 4: 2}[gates], "N": units}
    constants |= {"RECURRENT": 0, "BIAS": int(bias), "D": 0, "DIAG": 0, "TIED": 0}
    constants |= {"MASKS": 0, "HOLD": 0, "HOLD_CELL": 0, "INNER": 0, "RESTS": int(rests)}
    return (*cut.options(), *macros(constants))


def gradients(
    inputs: Inputs,
    grad_drive: Tensor,
    chip: Chip,
    *,
    holds: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor | None]:
    """`inputs.gradients(grad_drive)`, by kernels where they serve.

    Rows whose `holds` of state and cell are all one have no gradient, and are passed over.
    """
    if not serves(inputs):
        return inputs.gradients(grad_drive)
    gates, steps, batch, units = grad_drive.shape
    x, rows, width = inputs.x, steps * batch, inputs.weight.shape[-1]
    symbols, bias = not x.is_floating_point(), inputs.bias is not None
    weight = grad_drive.new_empty((gates, units, width))
    sums = grad_drive.new_empty((gates, units)) if bias else None
    hold, hold_cell = dense(holds[0]), dense(holds[1])
    if symbols:
        given = [grad_drive.contiguous(), hold, hold_cell, x.contiguous(), dense(inputs.scale)]
        sizes = [rows]
    else:
        unused = (None, None, None, None)
        given = [aligned(grad_drive), *unused, hold, hold_cell, None, None, aligned(x)]
        sizes = [rows, batch]
    what = (gates, units, width, grad_drive.dtype, symbols, bias, hold is not None)
    _gradient_sums(what, rows, chip).run(
        given, sizes, [weight, None, None, sums], grad_drive.device
    )
    return weight, sums


@lru_cache(4096)
def _gradient_sums(what: tuple, rows: int, chip: Chip) -> Sums:
    gates, units, width, dtype, symbols, bias, rests = what
    cut = gradient_tiles(units, width, symbols=symbols, dtype=dtype)
    options = gradient_options(cut, gates, units, dtype, bias=bias, rests=rests)
    results = gates * units * (width + bias)
    numbers = {"jobs": gates, "rows": rows, "in_chunk": results, "in_all": results}
    return sums_of("symbol" if symbols else "weight", cut, options, chip, **numbers)
