"""How a large scan is spread over the multiprocessors: units over blocks, sequences over groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.compile import macros

THREADS = 512
SEQUENCES = 32  # batch the groups are laid out for; a larger one takes several launches

# Pieces z is staged in, registers for the projection, most warps to share a product: the first
# that fits is taken.
LAYOUTS = [
    *((1, budget, cap) for budget in (0, 28, 56) for cap in (16, 4, 2, 1)),
    *((pieces, budget, cap) for pieces in (2, 3) for budget in (0, 56, 80) for cap in (16, 2)),
    *((pieces, budget, 16) for pieces in range(4, 17) for budget in (56, 80)),
]


@dataclass(frozen=True)
class Plan:
    """Constants of one kernel; a group of blocks scans `tile` sequences together."""

    constants: dict[str, int]
    shared_bytes: int
    tile: int
    blocks: int
    exchange_floats: int  # for each group

    def options(self) -> tuple[str, ...]:
        return macros(dict(sorted(self.constants.items())))


def _up(value: int, step: int) -> int:
    return ceil(value / step) * step


def _project(gates: int, rows: int, depth: int, *, budget: int) -> tuple[int, int, int]:
    """Steps of depth kept in registers, the registers they take, floats in shared memory."""
    tiles, steps = gates * ceil(rows / 16), depth // 8
    each = ceil(tiles * 32 / THREADS) * 4
    kept = min(steps, budget // each)
    return kept, kept * each, tiles * (steps - kept) * 128


def _expand(
    gates: int, depth: int, shared_z: bool, *, units: int, tile: int, pieces: int, cap: int
) -> tuple[int, int, int] | None:
    """How many warps share a product, floats of weights, floats of working space."""
    tiles, warps = gates * ceil(units / 16), THREADS // 32
    chunk = _up(ceil(depth / pieces), 8)
    steps = chunk // 8

    def rounds(split: int) -> float:
        return ceil(tiles * split / warps) * ceil(steps / split) + 0.5 * split * gates

    splits = [k for k in range(1, cap + 1) if k <= steps and (pieces == 1 or tiles * k <= warps)]
    if not splits:
        return None
    split = min(splits, key=rounds)
    stride = 8 if tile <= 8 else tile + 8
    staged = (1 if shared_z else gates) * chunk * stride
    results = gates * split * tile * (_up(units, 16) + 4)
    return split, tiles * pieces * steps * 128, max(staged, results)


def _fit_dense(
    call: Call, backward: bool, tile: int, blocks: int, shared_limit: int
) -> Plan | None:
    """Dense matrices: every block projects its units to all rows and sums up its own."""
    units = ceil(call.units / blocks)
    depth, stride = _up(units, 8), 8 if tile <= 8 else tile + 8
    gates = 2 if call.cell == "gru_before" else call.gates
    separate = call.masks == 2
    if separate:
        first = (gates, call.units, depth)
    elif backward:
        first = (1, call.units, gates * depth)
    else:
        first = (1, gates * call.units, depth)
    results = gates if separate or not backward else 1
    planes = call.gates if backward else gates if separate else 1
    projects = [first] + ([(1, call.units, depth)] if call.cell == "gru_before" else [])
    fixed = planes * depth * stride + THREADS * 4 + results * tile * (_up(units, 16) + 4)
    for budget in (0, 28, 56, 80):
        constants = {"KRP2": 0, "KSE1": 1, "NCH1": 1, "KSE2": 1, "NCH2": 1}
        floats, left = fixed, budget if tile > 8 else 0
        for index, project in enumerate(projects, 1):
            kept, registers, weights = _project(*project, budget=left)
            left -= registers
            constants[f"KRP{index}"] = kept
            floats += weights
        if 4 * floats <= shared_limit:
            break
    else:
        return None
    constants |= {"NT": THREADS, "BB": tile, "NBG": blocks, "UNITS": units}
    constants |= {"BACKWARD": int(backward)} | call.constants()
    total = tile * sum(many * rows for many, rows, _ in projects)
    return Plan(constants, 4 * floats, tile, blocks, 2 * blocks * total)


def _fit(call: Call, backward: bool, tile: int, blocks: int, shared_limit: int) -> Plan | None:
    if call.rank is None:
        return _fit_dense(call, backward, tile, blocks, shared_limit)
    rank, units = call.rank, ceil(call.units / blocks)
    depth, stride = _up(units, 8), 8 if tile <= 8 else tile + 8
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
    for pieces, budget, cap in LAYOUTS:
        constants = {"KRP2": 0, "KSE2": 1, "NCH2": 1}
        floats, work, left = planes * depth * stride + THREADS * 4, 0, budget if tile > 8 else 0
        for index, (project, expand) in enumerate(zip(projects, expands, strict=True), 1):
            kept, registers, weights = _project(*project, budget=left)
            made = _expand(*expand, units=units, tile=tile, pieces=pieces, cap=cap)
            if made is None:
                return None
            left -= registers
            constants |= {f"KRP{index}": kept, f"KSE{index}": made[0], f"NCH{index}": pieces}
            floats, work = floats + weights + made[1], max(work, made[2])
        if 4 * (floats + work) <= shared_limit:
            break
    else:
        return None
    constants |= {"NT": THREADS, "BB": tile, "NBG": blocks, "UNITS": units}
    constants |= {"BACKWARD": int(backward)}
    total = tile * sum(many * rows for many, rows, _ in projects)
    constants |= call.constants()
    return Plan(constants, 4 * (floats + work), tile, blocks, (blocks + 1) * total)


@cache
def plan(
    call: Call, *, backward: bool, processors: int, shared_limit: int, tile: int | None = None
) -> Plan | None:
    """The layout with the smallest groups that holds the factors on chip, or None."""
    for sequences in (8, 16, 32) if tile is None else (tile,):
        blocks = processors // (SEQUENCES // sequences)
        blocks = min(blocks, call.units)
        blocks = ceil(call.units / ceil(call.units / blocks))
        found = _fit(call, backward, sequences, blocks, shared_limit)
        if found is not None:
            return found
    return None
