"""How a large scan is spread over the multiprocessors: units over blocks, sequences over groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import ceil

import torch

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.compile import macros

THREADS = 512
RANGES = 4  # operands whose scales are kept, at most; each takes Range::WORDS of large_halves.cuh
SEQUENCES = 32  # batch the groups are laid out for; a larger one takes several launches

# What a step costs on an H200, to choose between layouts of dense matrices.
L2_BYTES = 5.5e6  # in a microsecond, by the whole chip
WAIT = 1.0  # microseconds from a packet sent to its being read
PRODUCT_CYCLES, CYCLES = 13, 1700  # of a tensor core's product; in a microsecond

TILES = (8, 16, 32)  # sequences of a group; a tensor core's product has eight
MOST_REGISTERS = {8: 32, 16: 80, 32: 80}  # for the projection, with so many sequences
# Pieces z is staged in, registers for the projection, most warps to share a product: the first
# that fits is taken.
LAYOUTS = [
    *((1, budget, cap) for budget in (0, 16, 32, 48) for cap in (16, 4, 2, 1)),
    *((pieces, budget, cap) for pieces in (2, 3) for budget in (0, 32, 48) for cap in (16, 2)),
    *((pieces, budget, 16) for budget in (64, 80) for pieces in range(1, 17)),
]


@dataclass(frozen=True)
class Plan:
    """Constants of one kernel; a group of blocks scans `tile` sequences together."""

    constants: dict[str, int]
    shared_bytes: int
    tile: int
    blocks: int
    exchange_floats: int  # for each group
    microseconds: float = 0.0  # that a step of dense matrices should take

    def options(self) -> tuple[str, ...]:
        return macros(dict(sorted(self.constants.items())))


def _up(value: int, step: int) -> int:
    return ceil(value / step) * step


@dataclass(frozen=True)
class _Halves:
    """Words of shared memory that operands and factors take, in float16 halves."""

    second: bool  # float32 needs a second half
    tile: int

    @property
    def fragment(self) -> int:
        return 256 if self.second else 128

    def operand(self, depth: int) -> int:
        """Numbers for all sequences, four of one side by side."""
        return depth // 4 * ((self.tile + 2) * 4 if self.second else (self.tile + 4) * 2)

    def operands(self, planes: int, depth: int) -> int:
        """Those that a step projects, and all scales."""
        return planes * self.operand(depth) + RANGES * 3 * self.tile


def _project(
    gates: int, rows: int, depth: int, *, halves: _Halves, budget: int
) -> tuple[int, int, int]:
    """Tiles a warp keeps in registers, the registers they take, words in shared memory."""
    jobs, steps, warps = gates * ceil(rows / 16), depth // 16, THREADS // 32
    kept = min(ceil(jobs / warps) * steps, budget // (halves.fragment // 32))
    whole, rest = divmod(kept, steps)
    held = min(whole * warps, jobs) * steps + min(max(jobs - whole * warps, 0), warps) * rest
    return kept, kept * halves.fragment // 32, (jobs * steps - held) * halves.fragment


def _expand(
    gates: int, depth: int, shared_z: bool, *, units: int, halves: _Halves, pieces: int, cap: int
) -> tuple[int, int, int] | None:
    """How many warps share a product, words of weights, words of working space."""
    tiles, warps = gates * ceil(units / 16), THREADS // 32
    chunk = _up(ceil(depth / pieces), 16)
    steps = chunk // 16

    def rounds(split: int) -> float:
        return ceil(tiles * split / warps) * ceil(steps / split) + 0.25 * split * gates

    splits = [k for k in range(1, cap + 1) if k <= steps and (pieces == 1 or tiles * k <= warps)]
    if not splits:
        return None
    split = min(splits, key=rounds)
    staged = (1 if shared_z else gates) * halves.operand(chunk)
    results = gates * split * halves.tile * (_up(units, 16) + 4)
    return split, tiles * pieces * steps * halves.fragment, max(staged, results)


def _fit_dense(
    call: Call, backward: bool, tile: int, blocks: int, down: int, shared_limit: int
) -> Plan | None:
    """Dense matrices: a block multiplies the units of its column into those of its row.

    The blocks stand in `down` rows. Of a single row each has a column of its own, which need not be
    spread.
    """
    units, across = ceil(call.units / blocks), blocks // down
    depth = _up(down * _up(units, 4) if down > 1 else units, 16)
    halves = _Halves(call.dtype == torch.float32, tile)
    gates = 2 if call.cell == "gru_before" else call.gates
    separate, rows = call.masks == 2, across * _up(units, 4)
    if separate:
        first = (gates, rows, depth)
    elif backward:
        first = (1, rows, gates * depth)
    else:
        first = (1, gates * rows, depth)
    results = gates if separate or not backward else 1
    planes = call.gates if backward else gates if separate else 1
    projects = [first] + ([(1, rows, depth)] if call.cell == "gru_before" else [])
    fixed = halves.operands(planes, depth) + THREADS * 4
    fixed += results * tile * (_up(units, 16) + 4)
    for budget in (0, 16, 32, 48, 64, 80):
        constants = {"KRP2": 0, "KSE1": 1, "NCH1": 1, "KSE2": 1, "NCH2": 1}
        floats, left = fixed, budget
        for index, project in enumerate(projects, 1):
            kept, registers, weights = _project(*project, halves=halves, budget=left)
            left -= registers
            constants[f"KRP{index}"] = kept
            floats += weights
        if 4 * floats <= shared_limit:
            break
    else:
        return None
    constants |= {"NT": THREADS, "BB": tile, "NBG": blocks, "ACROSS": across, "UNITS": units}
    constants |= {"BACKWARD": int(backward)} | call.constants()
    operands = (gates if backward or separate else 1) + (call.cell == "gru_before")
    shares = sum(many * rows for many, rows, _ in projects)
    spread = operands * _up(units, 4) if down > 1 else 0
    found = Plan(constants, 4 * floats, tile, blocks, 2 * blocks * tile * (shares + spread))
    return replace(
        found, microseconds=_dense_step(found, projects, 2 * shares + down * spread, halves)
    )


def _dense_step(
    layout: Plan, projects: list[tuple[int, int, int]], numbers: int, halves: _Halves
) -> float:
    """What a step should take: packets through L2, waits for them, and tensor cores."""
    groups, waits = SEQUENCES // layout.tile, 1 + (layout.constants["ACROSS"] < layout.blocks)
    exchanged = 4 * groups * layout.blocks * layout.tile * numbers / L2_BYTES
    rounds = sum(ceil(many * ceil(rows / 16) / 16) * depth // 16 for many, rows, depth in projects)
    products = 4 * rounds * layout.tile // 8 * (3 if halves.second else 1) * PRODUCT_CYCLES / CYCLES
    return exchanged + waits * len(projects) * WAIT + products


def _plan_dense(
    call: Call,
    backward: bool,
    processors: int,
    shared_limit: int,
    tile: int | None,
    down: int | None,
) -> Plan | None:
    """The layout that should be fastest, or None."""
    found = []
    for sequences in TILES if tile is None else (tile,):
        most = min(processors // (SEQUENCES // sequences), call.units)
        for rows in range(1, most + 1) if down is None else (down,):
            units = ceil(call.units / (most // rows * rows))
            blocks = ceil(ceil(call.units / units) / rows) * rows
            found.append(_fit_dense(call, backward, sequences, blocks, rows, shared_limit))
    return min((f for f in found if f), key=lambda f: f.microseconds, default=None)


def _fit(call: Call, backward: bool, tile: int, blocks: int, shared_limit: int) -> Plan | None:
    assert call.rank is not None
    rank, units = _up(call.rank, 4), ceil(call.units / blocks)
    depth, halves = _up(units, 16), _Halves(call.dtype == torch.float32, tile)
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
    projects, expands = [first], [wide]
    if call.cell == "gru_before":
        projects.append((1, rank, depth))
        expands.append((1, rank, True))
    operands = halves.operands(planes, depth)
    total = tile * sum(many * rows for many, rows, _ in projects)

    def laid_out(pieces: int, budget: int, cap: int) -> Plan | None:
        constants = {"KRP2": 0, "KSE2": 1, "NCH2": 1}
        floats, work, left = operands, THREADS * 4, budget
        for index, (project, expand) in enumerate(zip(projects, expands, strict=True), 1):
            kept, registers, weights = _project(*project, halves=halves, budget=left)
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

    For dense matrices the one that should be fastest; `down` asks for so many rows of blocks.
    """
    if call.rank is None:
        return _plan_dense(call, backward, processors, shared_limit, tile, down)
    for sequences in TILES if tile is None else (tile,):
        blocks = processors // (SEQUENCES // sequences)
        blocks = min(blocks, call.units)
        blocks = ceil(call.units / ceil(call.units / blocks))
        found = _fit(call, backward, sequences, blocks, shared_limit)
        if found is not None:
            return found
    return None
