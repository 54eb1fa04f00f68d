"""Kernels ready to be launched, and a record of what was."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor

Grid = tuple[int, int, int]
Arguments = list[Tensor | int | None]
"""None stands for a null pointer."""
Volley = Callable[[Sequence[Tensor], Sequence[int]], None]
"""Launches that were prepared, of tensors and whole numbers."""


class Launches(ABC):
    """A kernel ready to run."""

    def launch(
        self, grid: Grid, threads: int, arguments: Arguments, *, cooperative: bool = False
    ) -> None:
        """Queue the kernel, and write that down where somebody records."""
        if _records.open is not None:
            _records.open.append(Launch(self, grid, threads, arguments, cooperative))
        self.start(grid, threads, arguments, cooperative)

    @abstractmethod
    def start(self, grid: Grid, threads: int, arguments: Arguments, cooperative: bool) -> None:
        """Queue the kernel."""

    @classmethod
    def together(cls, launches: Sequence[Numbered]) -> Volley:
        """Launches of such kernels, one after the other, with arguments that are yet to come.

        None of them is cooperative.
        """

        def volley(tensors: Sequence[Tensor], numbers: Sequence[int]) -> None:
            values = [None, *tensors, *numbers]
            for launch, places in launches:
                arguments = [values[place] for place in places]
                launch.kernel.start(launch.grid, launch.threads, arguments, False)

        return volley


class Launch(NamedTuple):
    """What a kernel was launched with."""

    kernel: Launches
    grid: Grid
    threads: int
    arguments: Arguments
    cooperative: bool


Numbered = tuple[Launch, list[int]]
"""A launch, and where each of its arguments lies among nothing, some tensors and some numbers."""


class _Records(threading.local):
    open: list[Launch] | None = None


_records = _Records()


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """All launches of this thread, as they come."""
    before, _records.open = _records.open, []
    try:
        yield _records.open
    finally:
        _records.open = before
