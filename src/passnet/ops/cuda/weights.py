"""Weight gradients after a scan, each a sum over all rows, in two launches for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil

import torch
from torch import Tensor

from passnet.equations.rows import row_products
from passnet.ops.cuda.call import Call
from passnet.ops.cuda.chip import Chip, Launches
from passnet.ops.cuda.compile import read_source
from passnet.ops.scan import ScanCall, states_before

UNITS = 128
ROWS = 16
WIDEST = 64
SHORTEST_CHUNK = 64
WIDE_RANK, MANY_UNITS = 48, 512
"""From here on ordinary matrix products are faster than the kernel's."""
BLOCKS_EACH = 4
"""Blocks for each multiprocessor: enough to hide the latency of memory."""


@dataclass(frozen=True)
class Tiles:
    """How one kernel cuts its results: columns of a tile, results and threads of a block."""

    constants: tuple[tuple[str, int], ...]
    threads: int
    each: int  # tiles of every job

    def options(self) -> tuple[str, ...]:
        return tuple(f"-D{name}={value}" for name, value in self.constants)


@cache
def tiles(units: int, width: int) -> Tiles:
    """Tiles of 128 units by at most 64 columns, each thread with a small square of results.

    Without columns only the sums over rows are left.
    """
    across = max(1, ceil(width / WIDEST))
    columns = max(4, ceil(ceil(width / across) / 4) * 4)
    wide = 8 if columns % 8 == 0 else 4
    groups = columns // wide
    per = next(p for p in (8, 4, 2, 1) if UNITS // p * groups >= 96 or p == 1)
    threads = 128 if UNITS // per * groups <= 128 else 256
    constants = {"NT": threads, "RT": ROWS, "KT": columns, "UM": per, "KM": wide, "WIDTH": width}
    return Tiles(tuple(constants.items()), threads, ceil(units / UNITS) * across)


def source() -> str:
    """The text of both kernels."""
    return read_source("ptx.cuh", "common.cuh", "weights.cu")


@cache
def kernels(options: tuple[str, ...], chip: Chip) -> tuple[Launches, Launches]:
    parts, sums = (
        chip.kernel(source(), name, options=options, shared=0)
        for name in ("weight_parts", "weight_sums")
    )
    return parts, sums


@cache
def recurrent_options(call: Call) -> tuple[str, ...]:
    """The macros for the gradients of a scan's factors."""
    own = (*tiles(call.units, _columns(call)).options(), "-DSYMBOLS=-1", "-DBIAS=0")
    return (*own, *(f"-D{name}={value}" for name, value in call.constants().items()))


def _columns(call: Call) -> int:
    """How many columns the kernel multiplies: none where ordinary products are faster."""
    assert call.rank is not None
    return 0 if call.rank >= WIDE_RANK and call.units >= MANY_UNITS else call.rank


def chunks_of(blocks: int, rows: int, chip: Chip) -> tuple[int, int]:
    """How many chunks of how many rows fill the chip."""
    wanted = ceil(chip.processors * BLOCKS_EACH / blocks)
    count = max(1, min(wanted, rows // SHORTEST_CHUNK))
    each = ceil(ceil(rows / count) / ROWS) * ROWS
    return ceil(rows / each), each


def recurrent_gradients(
    chip: Chip,
    found: Call,
    call: ScanCall,
    grad_drive: Tensor,
    *,
    states: Tensor,
    saved: list[Tensor],
    grad_summaries: Tensor,
) -> list[Tensor]:
    """[dL, dR, dD where there is one, the inner bias' where there is one]."""
    gates, summaries = saved
    steps, batch, units = states.shape
    rows, width = steps * batch, _columns(found)
    cut, jobs = tiles(units, width), found.gates + (found.slots if width else 0)
    chunks, each = chunks_of(cut.each * jobs, rows, chip)
    # Dense whatever the strides of the factors: the kernel writes one row after the other.
    own = [factor.new_empty(factor.shape) for factor in call.factors[2:]]
    own += [] if call.inner_bias is None else [call.inner_bias.new_empty(units)]
    if width:
        matrices = [factor.new_empty(factor.shape) for factor in call.factors[:2]]
    else:
        matrices = large_products(
            found, call, grad_drive, states=states, saved=saved, grad_summaries=grad_summaries
        )
    outputs = [*(matrices if width else []), *own]
    if not outputs:
        return matrices
    total = jobs * units * width + sum(result.numel() for result in own)
    parts = torch.empty(chunks * total, dtype=torch.float32, device=states.device)
    first, second = kernels(recurrent_options(found), chip)
    masks = None if call.masks is None else call.masks.contiguous()
    first.launch(
        (cut.each, jobs, chunks),
        cut.threads,
        [grad_drive, states, call.initial.contiguous(), gates, masks, summaries, grad_summaries,
         None, None, None, parts, rows, batch, each],
    )  # fmt: skip
    diagonal = own[0] if found.diagonal else None
    inner = own[-1] if found.inner_bias else None
    blocks = ceil(sum(result.numel() for result in outputs) / 256)
    second.launch((blocks, 1, 1), 256, [parts, *matrices, diagonal, inner, chunks])
    return [*matrices, *own]


def large_products(
    found: Call,
    call: ScanCall,
    grad_drive: Tensor,
    *,
    states: Tensor,
    saved: list[Tensor],
    grad_summaries: Tensor,
) -> list[Tensor]:
    """[dL, dR] of a rank that fills the tiles of ordinary matrix products."""
    reset, summaries = saved[0][0].flatten(0, 1), saved[1]
    grads = grad_drive.flatten(1, 2)
    z, dz = (
        part.flatten(0, 1).transpose(0, 1).to(states.dtype) for part in (summaries, grad_summaries)
    )
    if found.cell == "lstm":
        left = row_products(grads, z)
    else:
        # A merged z is the one of both opening gates; the candidate's is the last.
        behind = grads[2:] * reset if found.cell == "gru_after" else grads[2:]
        opening = z[:1] if found.merged else z[:2]
        left = torch.cat((row_products(grads[:2], opening), row_products(behind, z[-1:])))
    right = _projections(found, call, states, reset, dz)
    return [left, right.sum(0, keepdim=True) if found.tied and len(right) > 1 else right]


def _projections(found: Call, call: ScanCall, states: Tensor, reset: Tensor, dz: Tensor) -> Tensor:
    """The gradient of what each summary was projected by, `[slots, d, n]`."""
    batch = states.shape[1]
    if not found.masks and found.cell != "gru_before":
        # The states a step began with are those of the step before: no copy of them is needed.
        later = row_products(dz[:, batch:], states[:-1].flatten(0, 1).unsqueeze(0))
        return later + row_products(dz[:, :batch], call.initial.unsqueeze(0))
    before = states_before(call.initial, states, slice(None))
    results = []
    for s in range(len(dz)):
        entered = before if call.masks is None else before * call.masks[s % len(call.masks)]
        entered = entered.flatten(0, 1)
        if found.cell == "gru_before" and s == len(dz) - 1:
            entered = entered * reset
        results.append(row_products(dz[s : s + 1], entered.unsqueeze(0))[0])
    return torch.stack(results)
