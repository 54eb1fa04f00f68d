"""How a small scan is laid out over the threads of one block, chosen by a count of cycles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, log2

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.compile import macros

LANES = (4, 8, 16, 32)
"""That may share a row of a projection."""
REGISTER_FILE = 65536
STAGES = 4
"""Steps whose rows are on their way into shared memory."""
ROWS = {"gru_after": 6, "gru_before": 5, "lstm": 7}
"""Planes a backward step reads a row of."""


@dataclass(frozen=True)
class Plan:
    """Constants of one kernel, the shared memory it needs and its predicted cycles per step."""

    threads: int
    constants: dict[str, int]
    shared_bytes: int
    cycles: float

    def options(self) -> tuple[str, ...]:
        return macros(dict(sorted(self.constants.items())))


def _scatter_shuffles(rows: int, lanes: int) -> int:
    count = 0
    while lanes > 1:
        rows = (rows + 1) // 2
        count += rows
        lanes //= 2
    return count


@dataclass(frozen=True)
class _Stage:
    registers: int  # weights one thread holds if all stay in registers
    unit: int  # weights in the smallest piece that can move to shared memory
    pieces: int
    cycles: float
    lanes: int = 0


def _project(
    gates: int, rows: int, columns: int, *, threads: int, choices: tuple[int, ...]
) -> _Stage:
    warps = threads / 32
    best: _Stage | None = None
    for lanes in choices:
        per_gate = threads // lanes // gates
        each = ceil(rows / per_gate)
        chunks = ceil(columns / (4 * lanes))
        shuffles = _scatter_shuffles(each, lanes)
        issue = warps / 4 * (each * chunks * 4 + chunks + 3 * shuffles)
        memory = warps * (4 * chunks + 2 * shuffles)
        cycles = max(issue, memory) + 36 * log2(lanes) + 90
        if best is None or cycles < best.cycles:
            best = _Stage(each * chunks * 4, chunks * 4, each, cycles, lanes)
    assert best is not None
    return best


def _expand(outputs: int, width: int, *, shared_input: bool, threads: int, lanes: int, per: int):
    warps = threads / 32
    chunks = ceil(ceil(width / 4) / lanes)
    shuffles, units, rest = 0, per, lanes
    while rest > 1:
        units = max(1, units // 2)
        shuffles += units * outputs
        rest //= 2
    loads = chunks * (1 if shared_input else outputs)
    issue = warps / 4 * (chunks * 4 * outputs * per + loads + 3 * shuffles)
    memory = warps * (4 * loads + 2 * shuffles)
    cycles = max(issue, memory) + 36 * log2(lanes) + 90
    return _Stage(chunks * 4 * outputs * per, 4 * outputs * per, chunks, cycles)


def _stages(
    call: Call, backward: bool, threads: int, lanes: int, per: int, choices: tuple[int, ...]
):
    n, d = call.units, call.rank
    two = call.cell == "gru_before"
    gates = 2 if two else call.gates
    padded = _padded(call, lanes)
    groups = 1 if call.merged else gates
    if d is None:
        projects = []
        expands = [(1, gates * padded, True) if backward else (gates, n, True)]
    elif backward:
        projects = [(1, d, gates * padded) if call.merged else (gates, d, n)]
        expands = [(1, groups * d, True)]
    else:
        projects = [(1, groups * d, n)]
        expands = [(gates, d, call.merged)]
    if two:
        projects += [] if d is None else [(1, d, n)]
        expands += [(1, n if d is None else d, True)]
    made = [_project(*p, threads=threads, choices=choices) for p in projects]
    wide = [
        _expand(o, k, shared_input=s, threads=threads, lanes=lanes, per=per) for o, k, s in expands
    ]
    return made, wide


def _padded(call: Call, lanes: int) -> int:
    """Units with room for whole pieces of a product."""
    piece = 4 * lanes if call.rank is None else 128
    return ceil(call.units / piece) * piece


def _overhead(call: Call, backward: bool, elements: int) -> int:
    loads = {"gru_after": 6, "gru_before": 5, "lstm": 9}[call.cell]
    each = 2 * loads + call.gates + 4 if backward else 3 * call.gates + 6
    # Without factors there is one product instead of two to keep the places of.
    return (36 if call.rank is None else 50) + elements * each


def _fit(
    call: Call, backward: bool, threads: int, lanes: int, per: int, shared_limit: int, choices
) -> Plan | None:
    made, wide = _stages(call, backward, threads, lanes, per, choices)
    elements = max(1, per // lanes)
    duplicates = max(1, lanes // per)
    limit = min(255, REGISTER_FILE // threads) // 8 * 8 - 1
    budget = limit - _overhead(call, backward, elements)
    constants = {"NT": threads, "S": lanes, "UPT": per, "BACKWARD": int(backward)}
    constants |= {"WIDE": 0, "STAGES": STAGES}
    constants |= {"Q1": 8, "Q2": 8, "RR1": 0, "RR2": 0, "KE1": 0, "KE2": 0}
    warps = threads / 32
    cycles = 0.0
    shared = 0
    for index, stage in enumerate(made + wide):
        kept = max(0, min(stage.pieces, budget // stage.unit))
        budget -= kept * stage.unit
        over = (stage.pieces - kept) * stage.unit
        shared += over * threads * 4
        cycles += stage.cycles + 2 * warps * over
        which = (index if index < len(made) else index - len(made)) + 1
        if index < len(made):
            constants[f"Q{which}"] = stage.lanes
            constants[f"RR{which}"] = kept
        else:
            constants[f"KE{which}"] = kept
    n, d, gates = call.units, call.rank, call.gates
    vectors = gates if backward else 2
    if d is None:
        z = vectors * _padded(call, lanes) if backward else 0
    else:
        step = ceil(d / (4 * lanes)) * 4 * lanes
        z = step + (ceil(gates * d / (4 * lanes)) * 4 * lanes if backward else gates * step)
    rows = (ROWS[call.cell] if backward else gates) * n * call.dtype.itemsize
    shared += 4 * (vectors * _padded(call, lanes) + z) + STAGES * ceil(rows / 16) * 16
    # Special functions issue at 16 lanes a cycle over the whole multiprocessor.
    functions = {"gru_after": 6, "gru_before": 6, "lstm": 10}[call.cell]
    # A thread's second unit was measured to cost most of a first: the chain hides little.
    cycles += functions * duplicates * n / 16 + 120 + 350 * (elements - 1)
    if shared > shared_limit:
        return None
    return Plan(threads, constants | call.constants(), shared, cycles)


def candidates(
    call: Call, *, backward: bool, shared_limit: int, choices: tuple[int, ...] = LANES
) -> list[Plan]:
    """Every layout that holds all factors or matrices on one multiprocessor, cheapest first."""
    found = []
    for threads in (128, 256, 512):
        for lanes in (1, 2, 4, 8, 16) if call.rank is None else (1, 2, 4, 8):
            if call.rank is not None and lanes > 1 and 4 * lanes > call.rank * 2:
                continue
            per = 1
            while threads // lanes * per < call.units:
                per *= 2
            if per // lanes > 8 or per > 16:
                continue
            if lanes > 1 and per == 1 and threads // lanes >= 2 * call.units:
                continue
            fit = _fit(call, backward, threads, lanes, per, shared_limit, choices)
            if fit is not None:
                found.append(fit)
    return sorted(found, key=lambda plan: plan.cycles)


@cache
def plan(call: Call, *, backward: bool, shared_limit: int) -> Plan | None:
    """The cheapest layout that holds all factors on one multiprocessor, or None."""
    return next(iter(candidates(call, backward=backward, shared_limit=shared_limit)), None)
