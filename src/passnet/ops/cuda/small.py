"""Launches of the small scan: one block for each sequence, all factors on one multiprocessor."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.compile import read_source
from passnet.ops.cuda.launches import Launches
from passnet.ops.cuda.small_plan import Plan, plan


def refuses(call: Call, *, shared_limit: int) -> str | None:
    """Why one multiprocessor cannot hold this scan, or None."""
    for backward in (False, True):
        if plan(call, backward=backward, shared_limit=shared_limit) is None:
            rank = "a dense matrix" if call.rank is None else f"rank {call.rank}"
            return (
                f"{call.units} units with {rank} and {call.gates} gates do not fit the registers "
                "and shared memory of one multiprocessor"
            )
    return None


def source(*, backward: bool) -> str:
    """The text of one pass, to be compiled with a layout's options."""
    which = "backward" if backward else "forward"
    return read_source("ptx.cuh", "common.cuh", "small_matrices.cuh", f"small_{which}.cu")


def kernel(layout: Plan, chip: Chip) -> Launches:
    """The compiled kernel of one layout."""
    return chip.scan(source, layout)


@cache
def _chosen(call: Call, backward: bool, wide: bool, chip: Chip) -> tuple[Launches, int]:
    """The kernel that serves a call and its threads; `wide` where offsets pass 32 bits."""
    layout = plan(call, backward=backward, shared_limit=chip.shared_limit)
    assert layout is not None
    if wide:
        layout = replace(layout, constants=layout.constants | {"WIDE": 1})
    return kernel(layout, chip), layout.threads


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
    """Run one pass over the states `like` [T, B, n]; a given layout is tried instead.

    A sequence has a block of its own, whatever is held when.
    """
    steps, batch, _ = like.shape
    if layout is None:
        wide = like.numel() * like.element_size() >= 2**32
        chosen, threads = _chosen(call, backward, wide, chip)
    else:
        chosen, threads = kernel(layout, chip), layout.threads
    chosen.launch((batch, 1, 1), threads, [*arguments, steps, batch])
