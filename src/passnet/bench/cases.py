"""The shapes that are timed: those of the paper's experiments, and short ones for a CPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

from passnet.config.matrix import LowRankPlusDiagonal


@dataclass(frozen=True)
class Case:
    """One layer on one batch: n units of rank d, T steps, B sequences, m input features."""

    name: str
    n: int
    d: int
    T: int
    B: int
    m: int
    cell: str = "gru"
    reset: str = "after"
    tied: bool = False

    @property
    def matrix(self) -> LowRankPlusDiagonal:
        """The structure of the state matrices."""
        return LowRankPlusDiagonal(self.d, tied=self.tied)

    @property
    def label(self) -> str:
        """The case in one short line."""
        cell = f"GRU reset-{self.reset}" if self.cell == "gru" else "LSTM"
        cell += " tied" if self.tied else ""
        return f"{self.name}: {cell} n={self.n} d={self.d} T={self.T} B={self.B}"


_BEFORE = [
    Case("copy", 128, 50, 520, 20, 10, reset="before"),
    Case("addition", 128, 24, 750, 20, 2, reset="before"),
    Case("psmnist", 128, 24, 784, 20, 1, reset="before"),
    Case("psmnist", 256, 24, 784, 20, 1, reset="before"),
    Case("psmnist", 512, 4, 784, 20, 1, reset="before"),
    Case("psmnist", 256, 24, 784, 128, 1, reset="before"),
    Case("psmnist", 512, 4, 784, 128, 1, reset="before"),
]

GPU_CASES = [
    *_BEFORE,
    *(replace(case, reset="after") for case in _BEFORE),
    Case("char-lm", 1000, 64, 128, 32, 51),
    Case("char-lm", 3298, 128, 128, 32, 51),
    Case("char-lm", 5459, 64, 128, 32, 51),
    Case("char-lm", 5459, 64, 128, 32, 51, tied=True),
    Case("char-lm", 6985, 64, 128, 32, 51, tied=True),
    Case("char-lm", 1740, 300, 128, 32, 49, cell="lstm"),
    Case("psmnist", 128, 24, 784, 20, 1, cell="lstm"),
    Case("psmnist", 256, 24, 784, 20, 1, cell="lstm"),
]

CPU_CASES = [
    Case("psmnist", 128, 24, 196, 20, 1),
    Case("psmnist", 128, 24, 196, 20, 1, reset="before"),
    Case("psmnist", 256, 24, 196, 20, 1),
    Case("psmnist", 256, 24, 196, 20, 1, reset="before"),
    Case("char-lm", 1000, 64, 32, 32, 51),
    Case("char-lm", 3298, 128, 8, 32, 51),
    Case("psmnist", 128, 24, 196, 20, 1, cell="lstm"),
]


def _sweeps(steps: Case, *ranks: Case) -> list[Case]:
    """A case with 1, 2, 4 and 8 times its steps, and others with so many times their rank."""
    longer = [replace(steps, name="growth in T", T=steps.T * k) for k in (1, 2, 4, 8)]
    wider = [replace(c, name="growth in d", d=c.d * k) for c in ranks for k in (1, 2, 4, 8)]
    return longer + wider


GPU_GROWTH = _sweeps(
    Case("", 256, 24, 196, 20, 1), Case("", 128, 6, 784, 20, 1), Case("", 4096, 16, 128, 32, 51)
)
CPU_GROWTH = _sweeps(
    Case("", 256, 24, 49, 20, 1), Case("", 128, 6, 196, 20, 1), Case("", 1000, 16, 32, 32, 51)
)


def quick(cases: list[Case]) -> list[Case]:
    """The same shapes with fewer steps, for a first look."""
    return [replace(case, T=max(4, case.T // 8)) for case in cases]
