"""Kernels of the unitary RNN: one block for each sequence, its state in shared memory."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.compile import read_source
from passnet.ops.cuda.launches import Launches
from passnet.ops.cuda.unitary_plan import plan, shared_bytes


def source(*, backward: bool) -> str:
    """The text of one pass, to be compiled with a layout's options."""
    which = "backward" if backward else "forward"
    return read_source("ptx.cuh", "common.cuh", "unitary.cuh", f"unitary_{which}.cu")


def refuses(units: int, *, shared_limit: int) -> str | None:
    """Why one block cannot hold so many units, or None."""
    if all(plan(units, backward=b, shared_limit=shared_limit) for b in (False, True)):
        return None
    needed = shared_bytes(units, 64)
    if needed > shared_limit:
        return (
            f"{units} complex units take {needed} bytes of shared memory, and a block of this GPU "
            f"has {shared_limit}"
        )
    return f"{units} complex units do not fit the registers of a block"


@cache
def prepared(
    units: int, backward: bool, chip: Chip, device: torch.device
) -> tuple[Launches, int, Tensor]:
    """The kernel of one pass, its threads and its tables."""
    layout = plan(units, backward=backward, shared_limit=chip.shared_limit)
    assert layout is not None
    kernel = chip.kernel(
        source(backward=backward),
        "unitary_backward" if backward else "unitary_forward",
        options=layout.options(),
        shared=layout.shared_bytes,
    )
    return kernel, layout.threads, layout.tables().to(device)
