"""The input matrices on a GPU: the drive of a whole sequence, and their gradients."""

from __future__ import annotations

from functools import cache
from math import ceil

import torch
from torch import Tensor

from passnet.ops.cuda.call import ELEMENTS
from passnet.ops.cuda.chip import Chip, Launches
from passnet.ops.cuda.compile import macros, read_source
from passnet.ops.cuda.tensors import aligned, dense
from passnet.ops.cuda.weights import (
    MANY_UNITS,
    RESERVED,
    SHARED_EACH,
    Tiles,
    chunks_of,
    kernels,
    tiles,
)
from passnet.ops.inputs import Inputs
from passnet.ops.scan import ScanCall

UNITS, ROWS, THREADS = 128, 32, 128
WIDEST = 64
"""Columns of an input matrix that the kernels hold on chip; beyond, ordinary products serve."""
WIDE = 16
"""From here on, for many units, tensor cores form the gradient of features."""
BLOCKS_EACH = 8
"""Blocks on a multiprocessor, all of which run at once: fewer where shared memory is short."""


def serves(inputs: Inputs) -> bool:
    """Whether the kernels here take these inputs."""
    narrow = inputs.weight.shape[-1] <= WIDEST
    return narrow and inputs.weight.dtype in ELEMENTS and inputs.x.numel() > 0


def drive_source() -> str:
    """The text of the forward kernel."""
    return read_source("ptx.cuh", "common.cuh", "drive.cu")


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


def drive_of(call: ScanCall, chip: Chip, *, room: Tensor | None = None) -> Tensor:
    """What a call's source gives to every gate at every step; in `room`, if inputs form it."""
    source = call.source
    if isinstance(source, Tensor):
        return source.contiguous()
    return form_drive(source, chip, room=room) if serves(source) else source.drive(room)


def form_drive(inputs: Inputs, chip: Chip, *, room: Tensor | None = None) -> Tensor:
    """`inputs.drive()` in one pass."""
    weight, symbols = inputs.weight, not inputs.x.is_floating_point()
    gates, steps, batch, units = inputs.shape
    rows = steps * batch
    drive = weight.new_empty(inputs.shape) if room is None else room
    x, bias, scale = inputs.x.contiguous(), inputs.bias, inputs.scale
    options = drive_options(
        units,
        weight.shape[-1],
        weight.dtype,
        symbols=symbols,
        scale=scale is not None,
        bias=bias is not None,
    )
    across = ceil(units / UNITS)
    wanted = chip.processors * _resident(weight.shape[-1], symbols) // (across * gates) or 1
    each = ceil(ceil(rows / min(wanted, ceil(rows / ROWS))) / ROWS) * ROWS
    _drive_kernel(options, chip).launch(
        (across, gates, ceil(rows / each)),
        THREADS,
        [None if symbols else x, x if symbols else None, dense(scale), weight.contiguous(),
         dense(bias), drive, rows, each],
    )  # fmt: skip
    return drive


def _resident(width: int, symbols: bool) -> int:
    shared = 4 * width * (UNITS + 1 + (0 if symbols else ROWS)) + RESERVED
    return min(BLOCKS_EACH, SHARED_EACH // shared)


def gradient_tiles(units: int, width: int, *, symbols: bool) -> Tiles:
    """How the gradients of input matrices are cut."""
    return tiles(units, width, wide=not symbols and width >= WIDE and units >= MANY_UNITS)


@cache
def gradient_options(
    cut: Tiles,
    gates: int,
    units: int,
    dtype: torch.dtype,
    *,
    symbols: bool,
    bias: bool,
    rests: bool = False,
) -> tuple[str, ...]:
    """The macros for the gradients of input matrices; `rests`: of sequences that may rest."""
    constants = {"IO_TYPE": ELEMENTS[dtype], "CELL": {2: 3, 3: 0, 4: 2}[gates], "N": units}
    constants |= {"SYMBOLS": int(symbols), "BIAS": int(bias), "D": 0, "DIAG": 0, "TIED": 0}
    constants |= {"MASKS": 0, "HOLD": int(rests), "HOLD_CELL": int(rests), "INNER": 0}
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
    rows, width = steps * batch, inputs.weight.shape[-1]
    x, scale = aligned(inputs.x), dense(inputs.scale)
    symbols, bias = not x.is_floating_point(), inputs.bias is not None
    weight = grad_drive.new_empty(gates, units, width)
    sums = grad_drive.new_empty(gates, units) if bias else None
    total = gates * units * (width + bias)
    cut = gradient_tiles(units, width, symbols=symbols)
    chunks, each = chunks_of(cut, gates, rows, chip)
    parts = torch.empty(chunks * total, dtype=torch.float32, device=grad_drive.device)
    rests = holds[0] is not None
    options = gradient_options(
        cut, gates, units, grad_drive.dtype, symbols=symbols, bias=bias, rests=rests
    )
    first, second = kernels(options, cut.shared, chip)
    sources = [None, x, scale] if symbols else [x, None, None]
    first.launch(
        (cut.each, gates, chunks),
        cut.threads,
        [
            aligned(grad_drive),
            *[None] * 4,
            *map(dense, holds),
            None,
            None,
            *sources,
            parts,
            rows,
            batch,
            each,
        ],
    )
    second.launch((ceil(total / 256), 1, 1), 256, [parts, weight, None, None, sums, chunks])
    return weight, sums
