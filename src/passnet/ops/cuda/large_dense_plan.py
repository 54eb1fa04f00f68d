"""How a scan with dense matrices is spread over rows and columns of blocks."""

from __future__ import annotations

from math import ceil

import torch

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.large_layout import SEQUENCES, THREADS, TILES, Halves, Plan, project, up

# What a step costs on an H200, to choose between layouts.
L2_BYTES = 5.5e6  # in a microsecond, by the whole chip
WAIT = 1.0  # microseconds from a packet sent to its being read
PRODUCT_CYCLES, CYCLES = 13, 1700  # of a tensor core's product; in a microsecond


def plan_dense(
    call: Call,
    backward: bool,
    processors: int,
    shared_limit: int,
    tile: int | None,
    down: int | None,
) -> Plan | None:
    """The layout that should be fastest, or None; `down` asks for so many rows of blocks."""
    found = []
    for sequences in TILES if tile is None else (tile,):
        most = min(processors // (SEQUENCES // sequences), call.units)
        for rows in range(1, most + 1) if down is None else (down,):
            units = ceil(call.units / (most // rows * rows))
            blocks = ceil(ceil(call.units / units) / rows) * rows
            found.append(_fit(call, backward, sequences, blocks, rows, shared_limit))
    return min((f for f in found if f), key=lambda f: f.microseconds, default=None)


def _fit(
    call: Call, backward: bool, tile: int, blocks: int, down: int, shared_limit: int
) -> Plan | None:
    """A block multiplies the units of its column into those of its row.

    The blocks stand in `down` rows. Of a single row each has a column of its own, which need not be
    spread.
    """
    units, across = ceil(call.units / blocks), blocks // down
    depth = up(down * up(units, 4) if down > 1 else units, 16)
    halves = Halves(call.dtype == torch.float32, tile)
    gates = 2 if call.cell == "gru_before" else call.gates
    separate, rows = call.masks == 2, across * up(units, 4)
    if separate:
        first = (gates, rows, depth)
    elif backward:
        first = (1, rows, gates * depth)
    else:
        first = (1, gates * rows, depth)
    results = gates if separate or not backward else 1
    planes = call.gates if backward else gates if separate else 1
    products = [first] + ([(1, rows, depth)] if call.cell == "gru_before" else [])
    fixed = halves.operands(planes, depth) + THREADS * 4
    fixed += results * tile * (up(units, 16) + 4)
    for budget in (0, 16, 32, 48, 64, 80):
        constants = {"KRP2": 0, "KSE1": 1, "NCH1": 1, "KSE2": 1, "NCH2": 1}
        floats, left = fixed, budget
        for index, product in enumerate(products, 1):
            kept, registers, weights = project(*product, halves=halves, budget=left)
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
    shares = sum(many * rows for many, rows, _ in products)
    spread = operands * up(units, 4) if down > 1 else 0
    numbers = 2 * shares + down * spread  # that are written or read for each sequence
    step = _step(products, blocks, tile, numbers, waits=2 if down > 1 else 1, halves=halves)
    exchange = 2 * blocks * tile * (shares + spread)
    return Plan(constants, 4 * floats, tile, blocks, exchange, step)


def _step(
    products: list[tuple[int, int, int]],
    blocks: int,
    tile: int,
    numbers: int,
    *,
    waits: int,
    halves: Halves,
) -> float:
    """Microseconds a step should take: packets through L2, waits for them, and tensor cores."""
    exchanged = 4 * SEQUENCES * blocks * numbers / L2_BYTES  # of all groups
    warps, each = THREADS // 32, tile // 8 * (3 if halves.second else 1)
    deep = sum(ceil(many * ceil(rows / 16) / warps) * depth // 16 for many, rows, depth in products)
    multiplied = warps // 4 * deep * each * PRODUCT_CYCLES / CYCLES
    return exchanged + waits * len(products) * WAIT + multiplied
