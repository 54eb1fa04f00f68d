"""What kernels run on: how much a launch may take of it, and who makes kernels for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Protocol, final

import torch

from passnet.ops.cuda.driver import Kernel, device_limits, why_not_compiled
from passnet.ops.cuda.launches import Launches


class Layout(Protocol):
    """What a plan of either scan says about its kernel."""

    @property
    def constants(self) -> dict[str, int]: ...

    @property
    def shared_bytes(self) -> int: ...

    def options(self) -> tuple[str, ...]: ...


class Chip(ABC):
    """A GPU, or what stands in for one where there is none."""

    processors: int
    shared_limit: int
    """Bytes of shared memory one block may take."""
    unavailable: str | None = None
    """A sentence why no kernel can be made for it, or None."""

    @abstractmethod
    def kernel(
        self, source: str, name: str, *, options: tuple[str, ...], shared: int
    ) -> Launches: ...

    def scan(self, source: Callable[..., str], layout: Layout) -> Launches:
        """The kernel of one pass, from the text of either and how it is laid out."""
        backward = bool(layout.constants["BACKWARD"])
        return self.kernel(
            source(backward=backward),
            "scan_backward" if backward else "scan_forward",
            options=layout.options(),
            shared=layout.shared_bytes,
        )


@final
class Gpu(Chip):
    """One CUDA device."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.processors, self.shared_limit, _ = device_limits(device)
        self.unavailable = why_not_compiled(device)

    def kernel(self, source: str, name: str, *, options: tuple[str, ...], shared: int) -> Kernel:
        return Kernel(source, name, device=self.device, options=options, shared=shared)


gpu = cache(Gpu)


def chip_of(device: torch.device) -> Chip:
    """The GPU that tensors are on."""
    if device.type != "cuda":
        raise ValueError(f"the CUDA scan needs tensors on a GPU, these are on {device}.")
    return gpu(device.index or 0)
