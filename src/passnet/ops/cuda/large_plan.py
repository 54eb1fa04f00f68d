"""How a large scan is spread over the multiprocessors: units over blocks, sequences over groups."""

from __future__ import annotations

from functools import cache
from math import ceil

import torch

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.large_dense_plan import plan_dense
from passnet.ops.cuda.large_layout import SEQUENCES, THREADS, TILES, Halves, Plan, project, up

MOST_REGISTERS = {8: 32, 16: 80, 32: 80}  # for the projection, with so many sequences
# Pieces z is staged in, registers for the projection, most warps to share a product: the first
# that fits is taken.
LAYOUTS = [
    *((1, budget, cap) for budget in (0, 16, 32, 48) for cap in (16, 4, 2, 1)),
    *((pieces, budget, cap) for pieces in (2, 3) for budget in (0, 32, 48) for cap in (16, 2)),
    *((pieces, budget, 16) for budget in (64, 80) for pieces in range(1, 17)),
]


@cache
def plan(
    call: Call,
    *,
    backward: bool,
    processors: int,
    shared_limit: int,
    tile: int | None = None,
    down: int | None = None,
) -> Plan | None:
    """The layout with the smallest groups that holds the factors on chip, or None.

    For dense matrices the fastest, as far as can be predicted; `down` asks for so many rows of
    blocks.
    """
    if call.rank is None:
        return plan_dense(call, backward, processors, shared_limit, tile, down)
    for sequences in TILES if tile is None else (tile,):
        blocks = processors // (SEQUENCES // sequences)
        blocks = min(blocks, call.units)
        blocks = ceil(call.units / ceil(call.units / blocks))
        found = _fit(call, backward, sequences, blocks, shared_limit)
        if found is not None:
            return found
    return None


def _fit(call: Call, backward: bool, tile: int, blocks: int, shared_limit: int) -> Plan | None:
    assert call.rank is not None
    rank, units = up(call.rank, 4), ceil(call.units / blocks)
    depth, halves = up(units, 16), Halves(call.dtype == torch.float32, tile)
    gates = 2 if call.cell == "gru_before" else call.gates
    groups = 1 if call.merged else gates
    separate = call.masks == 2
    if backward:
        first = (1, rank, gates * depth) if call.merged else (gates, rank, depth)
        wide = (gates, rank, False) if separate else (1, groups * rank, False)
        planes = call.gates
    else:
        first = (gates, rank, depth) if separate else (1, groups * rank, depth)
        wide = (gates, rank, call.merged)
        planes = gates if separate else 1
    products, expands = [first], [wide]
    if call.cell == "gru_before":
        products.append((1, rank, depth))
        expands.append((1, rank, True))
    operands = halves.operands(planes, depth)
    total = tile * sum(many * rows for many, rows, _ in products)

    def laid_out(pieces: int, budget: int, cap: int) -> Plan | None:
        constants = {"KRP2": 0, "KSE2": 1, "NCH2": 1}
        floats, work, left = operands, THREADS * 4, budget
        for index, (product, expand) in enumerate(zip(products, expands, strict=True), 1):
            kept, registers, weights = project(*product, halves=halves, budget=left)
            made = _expand(*expand, units=units, halves=halves, pieces=pieces, cap=cap)
            if made is None:
                return None
            left -= registers
            constants |= {f"KRP{index}": kept, f"KSE{index}": made[0], f"NCH{index}": pieces}
            floats, work = floats + weights + made[1], max(work, made[2])
        if 4 * (floats + work) > shared_limit:
            return None
        constants |= {"NT": THREADS, "BB": tile, "NBG": blocks, "ACROSS": blocks, "UNITS": units}
        constants |= {"BACKWARD": int(backward)} | call.constants()
        return Plan(constants, 4 * (floats + work), tile, blocks, (blocks + 1) * total)

    allowed = (layout for layout in LAYOUTS if layout[1] <= MOST_REGISTERS[tile])
    return next((found for layout in allowed if (found := laid_out(*layout))), None)


def _expand(
    gates: int, depth: int, shared_z: bool, *, units: int, halves: Halves, pieces: int, cap: int
) -> tuple[int, int, int] | None:
    """How many warps share a product, words of weights, words of working space."""
    tiles, warps = gates * ceil(units / 16), THREADS // 32
    chunk = up(ceil(depth / pieces), 16)
    steps = chunk // 16

    def rounds(split: int) -> float:
        return ceil(tiles * split / warps) * ceil(steps / split) + 0.25 * split * gates

    splits = [k for k in range(1, cap + 1) if k <= steps and (pieces == 1 or tiles * k <= warps)]
    if not splits:
        return None
    split = min(splits, key=rounds)
    staged = (1 if shared_z else gates) * halves.operand(chunk)
    results = gates * split * halves.tile * (up(units, 16) + 4)
    return split, tiles * pieces * steps * halves.fragment, max(staged, results)
