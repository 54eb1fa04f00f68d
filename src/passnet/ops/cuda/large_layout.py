"""What layouts of the large scan share: their form, and the room that operands and factors take."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from passnet.ops.cuda.compile import macros

THREADS = 512
RANGES = 4  # operands whose scales are kept, at most; each takes Range::WORDS of large_halves.cuh
SEQUENCES = 32  # batch the groups are laid out for; a larger one takes several launches
TILES = (8, 16, 32)  # sequences of a group; a tensor core's product has eight


@dataclass(frozen=True)
class Plan:
    """Constants of one kernel; a group of blocks scans `tile` sequences together."""

    constants: dict[str, int]
    shared_bytes: int
    tile: int
    blocks: int
    exchange_floats: int  # for each group
    microseconds: float = 0.0  # that a step should take, where layouts are compared by it

    def options(self) -> tuple[str, ...]:
        return macros(dict(sorted(self.constants.items())))


def up(value: int, step: int) -> int:
    return ceil(value / step) * step


@dataclass(frozen=True)
class Halves:
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


def project(
    gates: int, rows: int, depth: int, *, halves: Halves, budget: int
) -> tuple[int, int, int]:
    """Tiles a warp keeps in registers, the registers they take, words in shared memory."""
    jobs, steps, warps = gates * ceil(rows / 16), depth // 16, THREADS // 32
    kept = min(ceil(jobs / warps) * steps, budget // (halves.fragment // 32))
    whole, rest = divmod(kept, steps)
    held = min(whole * warps, jobs) * steps + min(max(jobs - whole * warps, 0), warps) * rest
    return kept, kept * halves.fragment // 32, (jobs * steps - held) * halves.fragment
