"""Weight gradients after a scan, each a sum over all rows, in two launches for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil
from typing import Literal

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.compile import macros, read_source
from passnet.ops.cuda.launches import Launches
from passnet.ops.cuda.passes import Given

UNITS = 128
ROWS, SHORT_ROWS, SHORTEST_CHUNK = 8, (32, 16), 64
"""Rows of a stage, of which a chunk has a whole number; where tensor cores multiply sixteen bits,
as many of these as there is room for; and the fewest rows of a chunk."""
WIDE_RANK, MANY_UNITS = 16, 128
"""From here on tensor cores multiply; below, products are not what takes the time."""
MANY_DENSE_UNITS = 512
"""From here on ordinary products form gradients of dense matrices, unless rows may rest."""
CHUNK_COST, SHORT_CHUNK_COST = 64, 300
"""Writing the results of a tile and adding them up takes about as long as so many rows, and as so
many of those that tensor cores multiply in sixteen bits."""
SHARED_EACH, RESERVED, GRANTED = 228 * 1024, 1024, 99 * 1024
"""Shared memory of a multiprocessor (H100, H200), what a block takes of it beside its own, and what
every chip that is served grants one."""
FEWEST_STAGES, MOST_STAGES = 3, 4


@dataclass(frozen=True)
class Tiles:
    """How one kernel cuts its results: columns of a tile, results and threads of a block."""

    constants: tuple[tuple[str, int], ...]
    threads: int
    shared: int  # bytes of a block
    each: int  # tiles of every job
    rows: int  # of a stage
    chunk_cost: int  # rows
    resident: int  # blocks that a multiprocessor is to run at once

    def options(self) -> tuple[str, ...]:
        return macros(dict(self.constants))


@cache
def tiles(units: int, width: int, *, wide: bool, dtype: torch.dtype, planes: int = 1) -> Tiles:
    """Tiles of 128 units by up to 128 columns for tensor cores, or by up to 64 without them.

    Without them each thread has a small square of results. A stage holds some rows of the columns
    and of the units, these in as many planes as may have to be combined.
    """
    widest, step = (128, 8) if wide else (64, 4)
    across = ceil(width / widest)
    columns = ceil(ceil(width / across) / step) * step
    constants = {"MMA": int(wide), "KT": columns, "WIDTH": width, "PLANES": planes}
    if wide:
        threads, resident = (128, 4) if columns <= 32 else (256, 2)
        # Row strides of 8 or 24 modulo 32 keep the fragments of tensor cores free of conflicts,
        # and likewise eight rows of sixteen bits.
        strides = UNITS + 8, columns + 8 if columns % 16 == 0 else columns
    else:
        square = 8 if columns % 8 == 0 else 4
        groups = columns // square
        per = next(p for p in (8, 4, 2, 1) if UNITS // p * groups >= 96 or p == 1)
        threads, resident = 128 if UNITS // per * groups <= 128 else 256, 4
        constants |= {"UM": per, "KM": square}
        strides = UNITS, columns
    # Tensor cores take sixteen bits as they are, others are widened.
    short = wide and dtype != torch.float32
    row = (2 if short else 4) * (planes * strides[0] + strides[1])  # bytes
    room = min(SHARED_EACH // resident - RESERVED, GRANTED)
    choices = SHORT_ROWS if short else (ROWS,)
    rows = next((r for r in choices if FEWEST_STAGES * r * row <= room), choices[-1])
    stages = max(FEWEST_STAGES, min(room // (rows * row), MOST_STAGES))
    constants |= {"NT": threads, "US": strides[0], "KS": strides[1], "RT": rows, "STAGES": stages}
    each, cost = ceil(units / UNITS) * across, SHORT_CHUNK_COST if short else CHUNK_COST
    shared = stages * rows * row
    return Tiles(tuple(constants.items()), threads, shared, each, rows, cost, resident)


Kind = Literal["weight", "symbol"]
"""What the columns of a result belong to: numbers of each row, or the symbol it shows."""


def source(kind: Kind) -> str:
    """The text of both kernels: `weight_parts` or `symbol_parts`, and `weight_sums`."""
    return read_source("ptx.cuh", "common.cuh", "weight_sums.cuh", f"{kind}s.cu")


@cache
def kernels(
    kind: Kind, options: tuple[str, ...], shared: int, chip: Chip
) -> tuple[Launches, Launches]:
    text = source(kind)
    parts = chip.kernel(text, f"{kind}_parts", options=options, shared=shared)
    return parts, chip.kernel(text, "weight_sums", options=options, shared=0)


def sums_up(call: Call) -> bool:
    """Whether the kernels here form the gradients of a scan's matrices."""
    return call.rank is not None or call.rests or call.units < MANY_DENSE_UNITS


def needs_behind(call: Call) -> bool:
    """Whether they read the gradient of the candidate's product where its reset gate follows."""
    return call.rank is None and call.cell == "gru_after" and sums_up(call)


def tiles_of(call: Call) -> Tiles:
    """How the gradients of a scan's matrices are cut; dense ones have all units for columns."""
    width = call.rank or call.units
    wide = width >= WIDE_RANK and call.units >= MANY_UNITS
    gated = call.cell == "gru_before" or (call.cell == "gru_after" and call.rank is not None)
    planes = 1 + call.diagonal + gated + (call.masks > 0)
    return tiles(call.units, width, wide=wide, dtype=call.dtype, planes=planes)


@cache
def recurrent_options(call: Call, cut: Tiles) -> tuple[str, ...]:
    """The macros for the gradients of a scan's matrices."""
    return (*cut.options(), *macros({"RECURRENT": 1, "BIAS": 0} | call.constants()))


def chunks_of(cut: Tiles, jobs: int, rows: int, chip: Chip) -> tuple[int, int]:
    """How many chunks of how many rows keep the chip busy for the shortest time."""
    slots = chip.processors * cut.resident
    return _chunks(cut.each * jobs, slots, rows, step=cut.rows, extra=cut.chunk_cost)


@lru_cache(4096)
def _chunks(blocks: int, slots: int, rows: int, *, step: int, extra: int) -> tuple[int, int]:
    def cost(count: int) -> float:
        return ceil(blocks * count / slots) * (rows / count + extra)

    most = max(1, rows // SHORTEST_CHUNK)
    filling = (rounds * slots // blocks for rounds in range(1, 9))
    count = min((max(1, min(count, most)) for count in filling), key=cost)
    each = ceil(ceil(rows / count) / step) * step
    return ceil(rows / each), each


@dataclass(frozen=True)
class Sums:
    """The two launches that sum up some jobs over so many rows."""

    parts: Launches
    grid: tuple[int, int, int]
    threads: int
    each: int  # rows of a chunk
    floats: int  # of all chunks' results
    totals: Launches
    blocks: int

    def run(self, given: list, sizes: list[int], results: list, device: torch.device) -> None:
        """Fill four `results` from what the first kernel is given before and after its own."""
        parts = torch.empty(self.floats, dtype=torch.float32, device=device)
        self.parts.launch(self.grid, self.threads, [*given, parts, *sizes, self.each])
        self.totals.launch((self.blocks, 1, 1), 256, [parts, *results, self.grid[2]])


def sums_of(
    kind: Kind,
    cut: Tiles,
    options: tuple[str, ...],
    chip: Chip,
    *,
    jobs: int,
    rows: int,
    in_chunk: int,
    in_all: int,
) -> Sums:
    """How jobs with so many numbers in a chunk, and so many in the end, are summed up."""
    chunks, each = chunks_of(cut, jobs, rows, chip)
    first, second = kernels(kind, options, cut.shared, chip)
    grid = (cut.each, jobs, chunks)
    return Sums(first, grid, cut.threads, each, chunks * in_chunk, second, ceil(in_all / 256))


@lru_cache(4096)
def _recurrent_sums(found: Call, rows: int, chip: Chip) -> Sums:
    cut = tiles_of(found)
    if found.rank is None:
        jobs, numbers = found.gates, found.gates * found.units**2
        sizes = {"in_chunk": numbers, "in_all": numbers}
    else:
        jobs, matrix = found.gates + found.slots, found.units * found.rank
        rights = 1 if found.tied else found.gates
        own = found.units * (found.diagonal * found.gates + found.inner_bias)
        sizes = {"in_chunk": jobs * matrix + own, "in_all": (found.gates + rights) * matrix + own}
    options = recurrent_options(found, cut)
    return sums_of("weight", cut, options, chip, jobs=jobs, rows=rows, **sizes)


def recurrent_gradients(
    chip: Chip,
    found: Call,
    given: Given,
    grad_drive: Tensor,
    states: Tensor,
    saved: list[Tensor],
    *,
    grad_summaries: Tensor | None,
    behind: Tensor | None = None,
) -> list[Tensor]:
    """[dL, dR and dD where there is one, or dW; the inner bias' where there is one].

    The first plane of `behind` is what `needs_behind` asks for.
    """
    summaries = None if found.rank is None else saved[-1]
    steps, batch, _ = states.shape
    rows = steps * batch
    read = [grad_drive, states, given.initial, saved[0], given.masks, given.hold, given.hold_cell,
            summaries, grad_summaries, behind]  # fmt: skip
    sums, sizes = _recurrent_sums(found, rows, chip), [rows, batch]
    if found.rank is None:
        matrices = torch.empty_like(given.left)
        sums.run(read, sizes, [None, matrices, None, None], states.device)
        if not found.inner_bias:
            return [matrices]
        assert behind is not None
        return [matrices, behind[0].sum((0, 1))]
    wanted = (given.left, given.right, given.diagonal, given.inner_bias)
    results = [None if tensor is None else torch.empty_like(tensor) for tensor in wanted]
    sums.run(read, sizes, results, states.device)
    return [result for result in results if result is not None]
