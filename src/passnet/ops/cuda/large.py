"""Launches of the large scan: a cooperative grid with the factors spread over the whole chip."""

from __future__ import annotations

from functools import cache
from math import ceil

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.compile import Kernel, device_limits, read_source
from passnet.ops.cuda.large_plan import Plan, plan


def refuses(call: Call, *, processors: int, shared_limit: int) -> str | None:
    """Why the chip cannot hold this scan, or None."""
    if call.rank is None:
        return (
            f"a dense matrix of {call.units} units does not fit one multiprocessor, and only "
            "low-rank matrices are spread over several."
        )
    for backward in (False, True):
        found = plan(call, backward=backward, processors=processors, shared_limit=shared_limit)
        if found is None:
            return (
                f"{call.units} units with rank {call.rank} and {call.gates} gates do not fit the "
                f"shared memory of {processors} multiprocessors."
            )
    return None


def source(*, backward: bool) -> str:
    """The text of one pass, to be compiled with a layout's options."""
    which = "backward" if backward else "forward"
    return read_source(
        "common.cuh", "large_products.cuh", "large_exchange.cuh", f"large_{which}.cu"
    )


def kernel(layout: Plan, device: int) -> Kernel:
    """The compiled kernel of one layout."""
    backward = bool(layout.constants["BACKWARD"])
    return Kernel(
        source(backward=backward),
        "scan_backward" if backward else "scan_forward",
        device=device,
        options=layout.options(),
        shared=layout.shared_bytes,
    )


@cache
def _chosen(call: Call, backward: bool, device: int) -> tuple[Kernel, Plan]:
    processors, limit, _ = device_limits(device)
    layout = plan(call, backward=backward, processors=processors, shared_limit=limit)
    assert layout is not None
    return kernel(layout, device), layout


def launch(
    call: Call, arguments: list, like: Tensor, *, backward: bool, layout: Plan | None = None
) -> None:
    """Run one pass over the states `like` [T, B, n]; a given layout is tried instead."""
    steps, batch, _ = like.shape
    device = like.device.index
    if layout is None:
        chosen, layout = _chosen(call, backward, device)
    else:
        chosen = kernel(layout, device)
    most = device_limits(device)[0] // layout.blocks
    groups = min(most, ceil(batch / layout.tile))
    exchange = torch.empty(groups * layout.exchange_floats, dtype=torch.float32, device=like.device)
    for start in range(0, batch, groups * layout.tile):
        here = min(groups, ceil((batch - start) / layout.tile))
        exchange.zero_()  # a packet counts once its last bit differs from what was there
        chosen.launch(
            (here * layout.blocks, 1, 1),
            layout.constants["NT"],
            [*arguments, exchange, steps, batch, start],
            cooperative=True,
        )
