"""How the unitary scan is laid out over a block: two factors of n, and who sums what of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import ceil, log2, pi

import torch
from torch import Tensor

from passnet.ops.cuda.compile import macros

LATENCY, LEVEL, UNIT = 80, 30, 60
"""Cycles of a round beside its work, of one level of a butterfly, and of a thread's unit."""

BESIDE = 50
"""Registers of a thread whatever it does."""

THROUGH, AT_ONCE = {False: 7, True: 12}, {False: 9, True: 24}
"""Registers for a unit during a transform and beside it, forwards and backwards."""


@dataclass(frozen=True)
class Step:
    """One of the two steps of a transform: `columns` transforms of this length."""

    length: int
    columns: int
    outputs: int  # of a thread's tile
    tile: int  # columns of it
    lanes: int  # that share its sums
    kept: bool  # whether the table is in registers
    threads: int

    @property
    def half(self) -> int:
        """Terms, and results, once those of j and length - j are taken together."""
        return self.length // 2 + 1

    @property
    def terms(self) -> int:
        """Of one lane."""
        return ceil(self.half / self.lanes)

    @property
    def across(self) -> int:
        """Threads that cover all results of a tile of columns."""
        return ceil(self.half / self.outputs) * self.lanes

    @property
    def fits(self) -> bool:
        return self.across <= self.threads

    @property
    def table(self) -> int:
        """Registers for cosines and sines."""
        return 2 * self.outputs * self.terms if self.kept else 0

    @property
    def sums(self) -> int:
        """Registers for what is summed."""
        return 4 * self.outputs * self.tile

    @property
    def registers(self) -> int:
        return self.table + self.sums

    @cached_property
    def cycles(self) -> float:
        """A number through the shared pipe takes a warp one cycle, an instruction a quarter."""
        tiles = ceil(self.columns / self.tile)
        walkers = min(self.threads // self.across, tiles)
        warps = ceil(self.across * walkers / 32)
        loads = self.terms * (4 * self.tile + (0 if self.kept else 2 * self.outputs))
        shuffles = self.sums - self.sums // self.lanes
        sums = self.terms * self.tile * (4 + 4 * self.outputs)
        busy = max(warps * (loads + shuffles), ceil(warps / 4) * (sums + loads / 2 + 3 * shuffles))
        return ceil(tiles / walkers) * (busy + LATENCY + LEVEL * log2(self.lanes))

    def constants(self, number: int) -> dict[str, int]:
        """The macros of the first or the second step."""
        values = {"K": self.outputs, "C": self.tile, "LANES": self.lanes, "KEPT": int(self.kept)}
        return {f"{name}{number}": value for name, value in values.items()}


@dataclass(frozen=True)
class UnitaryPlan:
    """The two steps of a transform over the threads of a block."""

    first: Step
    second: Step
    threads: int

    @property
    def units(self) -> int:
        return self.first.length * self.first.columns

    @property
    def each(self) -> int:
        """Units of a thread."""
        return ceil(self.units / self.threads)

    @property
    def cycles(self) -> float:
        """Of one transform and what follows it."""
        return self.first.cycles + self.second.cycles + UNIT * self.each

    def fits(self, *, backward: bool) -> bool:
        """Whether the registers suffice; each of four schedulers has 512 for its warps."""
        sums = max(self.first.sums, self.second.sums)
        most = max(sums + THROUGH[backward] * self.each, AT_ONCE[backward] * self.each)
        limit = min(512 // ceil(self.threads / 128) // 8 * 8, 255)
        return BESIDE + self.first.table + self.second.table + most <= limit

    @property
    def shared_bytes(self) -> int:
        return shared_bytes(self.units, self.threads)

    @property
    def constants(self) -> dict[str, int]:
        sizes = {"IO_TYPE": 0, "N": self.units, "NT": self.threads}
        sizes |= {"ROWS": self.first.length, "COLUMNS": self.first.columns}
        return sizes | self.first.constants(1) | self.second.constants(2)

    def options(self) -> tuple[str, ...]:
        """The macros of both kernels."""
        return macros(self.constants)

    def tables(self) -> Tensor:
        """Roots of one over the root of n, then cosines and sines for the two steps."""
        roots = torch.polar(torch.tensor(self.units**-0.5).double(), -_turns(self.units))
        return torch.cat((roots, *map(_table, (self.first, self.second)))).to(torch.complex64)


def shared_bytes(units: int, threads: int) -> int:
    """Eight complex vectors, the permutation, and a partial sum of each warp."""
    return 68 * units + threads // 4


def _turns(length: int) -> Tensor:
    return torch.arange(length, dtype=torch.float64) * (2 * pi / length)


def _table(step: Step) -> Tensor:
    """[term of a lane, output of a tile, tile, lane] in double precision, zero beyond the half."""
    terms = torch.arange(step.terms * step.lanes).reshape(-1, 1, 1, step.lanes)
    outputs = torch.arange(step.across // step.lanes * step.outputs)
    outputs = outputs.reshape(-1, step.outputs).T.reshape(1, step.outputs, -1, 1)
    turns = _turns(step.length)[terms * outputs % step.length]
    alone = 2 * terms % step.length == 0
    values = torch.complex(torch.where(alone, 0.5, 1.0) * turns.cos(), turns.sin())
    return values.where((terms < step.half) & (outputs < step.half), 0).flatten()


@cache
def plan(units: int, *, backward: bool, shared_limit: int) -> UnitaryPlan | None:
    """The layout with the fewest cycles, or None where a block cannot hold the vectors."""
    found = []
    for threads in range(64, 1025, 32):
        if shared_bytes(units, threads) > shared_limit:
            continue
        for rows in (rows for rows in range(1, units + 1) if units % rows == 0):
            steps = (rows, units // rows), (units // rows, rows)
            for first, second in product(*(_frugal(*sizes, threads) for sizes in steps)):
                layout = UnitaryPlan(first, second, threads)
                if layout.fits(backward=backward):
                    found.append(layout)
    return min(found, key=lambda one: (one.cycles, one.threads), default=None)


def _frugal(length: int, columns: int, threads: int) -> list[Step]:
    """The ways to do a step that no other beats in both cycles and registers."""
    kept: list[Step] = []
    for step in sorted(_steps(length, columns, threads), key=lambda s: (s.cycles, s.registers)):
        if not kept or step.registers < kept[-1].registers:
            kept.append(step)
    return kept


def _steps(length: int, columns: int, threads: int) -> Iterator[Step]:
    for outputs, tile, lanes, kept in product((1, 2, 4, 8), (1, 2), (1, 2, 4, 8), (True, False)):
        step = Step(length, columns, outputs, tile, lanes, kept, threads)
        if outputs * tile % lanes == 0 and step.fits:
            yield step
