"""Several processes as one: who they are, and the few things they exchange."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch import distributed as dist

from passnet.training.errors import Refused, RunError, unknown_device


@final
@dataclass(frozen=True)
class World:
    """This process among those that train one model together.

    Gradients are exchanged as one flat message after the backward pass: the scan yields its
    gradients at the end, so there is nothing to overlap, and no parameter needs special care for
    being unused in a batch.
    """

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files and speaks."""
        return self.rank == 0

    @property
    def shard(self) -> tuple[int, int] | None:
        """This process's share of a batch."""
        return None if self.size == 1 else (self.rank, self.size)

    def mean_(self, tensors: Sequence[Tensor]) -> None:
        """Replace the tensors by their means over all processes."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.size
        parts = flat.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size == 1:
            return tensor
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether the flag is raised anywhere."""
        if self.size == 1:
            return flag
        return bool(self.sum(torch.tensor(float(flag), device=self.device)).item())

    def send(self, content: bytes) -> bytes:
        """What the first process has, in every process; what others give is ignored."""
        if self.size == 1:
            return content
        size = torch.tensor(len(content), device=self.device)
        dist.broadcast(size, 0)
        box = torch.empty(int(size), dtype=torch.uint8, device=self.device)
        if self.first:
            box.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(box, 0)
        return box.cpu().numpy().tobytes()

    def join_lanes(self, mine: Tensor, sizes: Sequence[int]) -> Tensor:
        """All processes' parts of a tensor along its second axis; `sizes` says how wide each is."""
        if self.size == 1:
            return mine
        widest = max(sizes)
        padded = mine.new_zeros(mine.shape[0], widest, *mine.shape[2:])
        padded[:, : mine.shape[1]] = mine
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:, :size] for part, size in zip(parts, sizes, strict=True)], dim=1)


def choose_device(wanted: str | torch.device | None = None) -> torch.device:
    """The device of this process: the one asked for, else a GPU where there is one."""
    if wanted is None:
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    device = _read_device(wanted)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise Refused("device 'cuda' was asked for, but PyTorch sees no GPU: use 'cpu'")
        index = device.index
        if index is None:
            index = int(os.environ.get("LOCAL_RANK", 0))
        if index >= torch.cuda.device_count():
            raise Refused(
                f"device cuda:{index} was asked for, but there are {torch.cuda.device_count()} "
                "GPUs: start no more processes than GPUs on a machine"
            )
        return torch.device("cuda", index)
    return device


def _read_device(wanted: str | torch.device) -> torch.device:
    try:
        device = torch.device(wanted)
    except RuntimeError:
        # PyTorch's own words name twenty kinds of devices and what built it.
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise Refused(unknown_device(wanted))
    return device


def current(device: torch.device) -> contextlib.AbstractContextManager:
    """Within the context a GPU is the one that streams and graphs are made on."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """The world that torchrun describes in the environment, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        yield World(device)
        return
    if not dist.is_available():
        raise RunError("this PyTorch was built without torch.distributed: run one process")
    ours = not dist.is_initialized()
    if ours:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(device, dist.get_rank(), dist.get_world_size())
    finally:
        if ours:
            dist.destroy_process_group()


def share_sizes(count: int, shares: int) -> list[int]:
    """How many of `count` rows each of `shares` equal shares has, as tasks divide them."""
    return [(k + 1) * count // shares - k * count // shares for k in range(shares)]
