"""Launches of the large scan: a cooperative grid with the factors spread over the whole chip."""

from __future__ import annotations

from functools import cache
from math import ceil

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.compile import read_source
from passnet.ops.cuda.large_layout import TILES, Plan
from passnet.ops.cuda.large_plan import plan
from passnet.ops.cuda.launches import Launches


def refuses(call: Call, *, processors: int, shared_limit: int) -> str | None:
    """Why the chip cannot hold this scan, or None."""
    for backward in (False, True):
        found = plan(call, backward=backward, processors=processors, shared_limit=shared_limit)
        if found is None:
            rank = "a dense matrix" if call.rank is None else f"rank {call.rank}"
            return (
                f"{call.units} units with {rank} and {call.gates} gates do not fit the "
                f"shared memory of {processors} multiprocessors"
            )
    return None


def source(*, backward: bool) -> str:
    """The text of one pass, to be compiled with a layout's options."""
    which = "backward" if backward else "forward"
    return read_source(
        "ptx.cuh",
        "common.cuh",
        "large_halves.cuh",
        "large_products.cuh",
        "large_exchange.cuh",
        f"large_{which}.cu",
    )


def kernel(layout: Plan, chip: Chip) -> Launches:
    """The compiled kernel of one layout."""
    return chip.scan(source, layout)


@cache
def _chosen(call: Call, backward: bool, chip: Chip) -> tuple[Launches, Plan]:
    limits = {"processors": chip.processors, "shared_limit": chip.shared_limit}
    layout = plan(call, backward=backward, **limits)
    assert layout is not None
    return kernel(layout, chip), layout


def launch(
    chip: Chip,
    call: Call,
    arguments: list,
    like: Tensor,
    *,
    hold: Tensor | None,
    backward: bool,
    layout: Plan | None = None,
) -> None:
    """Run one pass over the states `like` [T, B, n]; a given layout is tried instead."""
    steps, batch, _ = like.shape
    if layout is None:
        chosen, layout = _chosen(call, backward, chip)
    else:
        chosen = kernel(layout, chip)
    order = None
    if hold is not None and call.rests and layout.tile > TILES[0]:
        # The longest sequences first, so that halves of groups can end early.
        order = hold.sum(0).flatten().argsort(stable=True)
    most = chip.processors // layout.blocks
    groups = min(most, ceil(batch / layout.tile))
    exchange = torch.empty(groups * layout.exchange_floats, dtype=torch.float32, device=like.device)
    for start in range(0, batch, groups * layout.tile):
        here = min(groups, ceil((batch - start) / layout.tile))
        exchange.zero_()  # a packet counts once its last bit differs from what was there
        chosen.launch(
            (here * layout.blocks, 1, 1),
            layout.constants["NT"],
            [*arguments, exchange, order, steps, batch, start],
            cooperative=True,
        )
