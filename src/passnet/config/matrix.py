"""What a recurrent matrix may be: small values that users pass as `matrix=` and presets store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class MatrixSpec(ABC):
    """The structure of the n x n state matrices of one layer, one matrix for each gate."""

    def check(self, size: int) -> None:
        """Raise ValueError if a state of `size` units cannot have this structure."""
        if size < 1:
            raise ValueError(f"a state cannot have {size} units: choose 1 or more")

    @abstractmethod
    def count(self, size: int, gates: int) -> int:
        """Trainable parameters in the `gates` state matrices of a layer of `size` units."""

    @abstractmethod
    def describe(self) -> str:
        """A short description for tables, such as `low-rank plus diagonal 24, tied`."""


@dataclass(frozen=True)
class Dense(MatrixSpec):
    """An unconstrained n x n matrix per gate: what torch.nn.GRU and torch.nn.LSTM have."""

    def count(self, size: int, gates: int) -> int:
        return gates * size * size

    def describe(self) -> str:
        return "dense"


@dataclass(frozen=True)
class LowRank(MatrixSpec):
    """W = L R, where L is n x rank and R is rank x n; with `tied` all gates share R."""

    rank: int
    tied: bool = False

    def check(self, size: int) -> None:
        _check_rank(self.rank, size)
        _check_tied(self.tied)

    def count(self, size: int, gates: int) -> int:
        return size * self.rank * (gates + (1 if self.tied else gates))

    def describe(self) -> str:
        return f"low-rank {self.rank}{_tied(self.tied)}"


@dataclass(frozen=True)
class LowRankPlusDiagonal(MatrixSpec):
    """W = L R + D, where D is diagonal; with `tied` all gates share R, but not L or D."""

    rank: int
    tied: bool = False

    def check(self, size: int) -> None:
        _check_rank(self.rank, size)
        _check_tied(self.tied)

    def count(self, size: int, gates: int) -> int:
        return LowRank(self.rank, self.tied).count(size, gates) + gates * size

    def describe(self) -> str:
        return f"low-rank plus diagonal {self.rank}{_tied(self.tied)}"


@dataclass(frozen=True)
class BlockDiagonal(MatrixSpec):
    """Square blocks of n / blocks units along the diagonal, zero elsewhere."""

    blocks: int

    def check(self, size: int) -> None:
        _check_blocks(self.blocks, size)

    def count(self, size: int, gates: int) -> int:
        return gates * size * (size // self.blocks)

    def describe(self) -> str:
        return f"block-diagonal {self.blocks}"


@dataclass(frozen=True)
class BlockDiagonalPlusLowRank(MatrixSpec):
    """Diagonal blocks plus L R: local mixing within a block, a thin channel between blocks."""

    blocks: int
    rank: int
    tied: bool = False

    def check(self, size: int) -> None:
        _check_blocks(self.blocks, size)
        _check_rank(self.rank, size)
        _check_tied(self.tied)

    def count(self, size: int, gates: int) -> int:
        blocks = BlockDiagonal(self.blocks).count(size, gates)
        return blocks + LowRank(self.rank, self.tied).count(size, gates)

    def describe(self) -> str:
        return f"block-diagonal {self.blocks} plus low-rank {self.rank}{_tied(self.tied)}"


def _tied(tied: bool) -> str:
    return ", tied" if tied else ""


def _check_rank(rank: int, size: int) -> None:
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise TypeError(f"rank must be an int, got {rank!r} of type {type(rank).__name__}")
    if not 1 <= rank <= size:
        raise ValueError(
            f"rank={rank} does not fit a state of {size} units: choose 1 <= rank <= {size} "
            "(well below half of it, to save parameters)"
        )


def _check_tied(tied: bool) -> None:
    if not isinstance(tied, bool):
        raise TypeError(f"tied must be True or False, got {tied!r}")


def _check_blocks(blocks: int, size: int) -> None:
    if isinstance(blocks, bool) or not isinstance(blocks, int):
        raise TypeError(f"blocks must be an int, got {blocks!r} of type {type(blocks).__name__}")
    if blocks < 1 or size % blocks:
        raise ValueError(
            f"blocks={blocks} does not divide a state of {size} units: "
            f"choose a divisor of {size}, such as {_nearest_divisor(size, blocks)}"
        )


def _nearest_divisor(size: int, wanted: int) -> int:
    divisors = [k for k in range(1, size + 1) if size % k == 0]
    return min(divisors, key=lambda k: abs(k - wanted))
