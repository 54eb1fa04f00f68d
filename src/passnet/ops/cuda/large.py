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


@cache
def _kernel(chosen: tuple[str, ...], backward: bool, shared: int, device: int) -> Kernel:
    name = "scan_backward" if backward else "scan_forward"
    text = source(backward=backward)
    return Kernel(text, name, device=device, options=chosen, shared=shared)


def kernel(layout: Plan, device: int) -> Kernel:
    """The compiled kernel of one layout."""
    backward = bool(layout.constants["BACKWARD"])
    return _kernel(layout.options(), backward, layout.shared_bytes, device)


def _chosen(call: Call, backward: bool, device: int) -> Plan:
    processors, limit, _ = device_limits(device)
    layout = plan(call, backward=backward, processors=processors, shared_limit=limit)
    if layout is None:
        raise ValueError(refuses(call, processors=processors, shared_limit=limit))
    return layout


def _three(factors: tuple[Tensor, ...]) -> list[Tensor | None]:
    return [*factors, *[None] * (3 - len(factors))]


def _launch(layout: Plan, arguments: list, like: Tensor, steps: int, batch: int) -> None:
    device = like.device.index
    most = device_limits(device)[0] // layout.blocks
    groups = min(most, ceil(batch / layout.tile))
    exchange = torch.empty(groups * layout.exchange_floats, dtype=torch.float32, device=like.device)
    for start in range(0, batch, groups * layout.tile):
        here = min(groups, ceil((batch - start) / layout.tile))
        exchange.zero_()  # a packet counts once its last bit differs from what was there
        kernel(layout, device).launch(
            here * layout.blocks,
            layout.constants["NT"],
            [*arguments, exchange, steps, batch, start],
            cooperative=True,
        )


def forward(
    call: Call,
    drive: Tensor,
    *,
    h0: Tensor,
    c0: Tensor | None,
    factors: tuple[Tensor, ...],
    masks: Tensor | None,
    hold: Tensor | None,
    hold_cell: Tensor | None,
    inner_bias: Tensor | None,
    layout: Plan | None = None,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """States, cells (LSTM) and what the backward reads; every tensor must be contiguous."""
    layout = layout or _chosen(call, False, drive.device.index)
    _, steps, batch, units = drive.shape
    states = torch.empty_like(drive[0])
    cells = torch.empty_like(states) if call.cell == "lstm" else None
    kept = 3 if call.cell == "gru_before" else 4
    saved = drive.new_empty(kept, steps, batch, units)
    arguments = [drive, h0, c0, *_three(factors), masks, hold, hold_cell, inner_bias]
    _launch(layout, [*arguments, states, cells, saved], drive, steps, batch)
    return states, cells, saved


def backward(
    call: Call,
    grad_states: Tensor,
    *,
    grad_cells: Tensor | None,
    h0: Tensor,
    c0: Tensor | None,
    factors: tuple[Tensor, ...],
    masks: Tensor | None,
    hold: Tensor | None,
    hold_cell: Tensor | None,
    states: Tensor,
    cells: Tensor | None,
    saved: Tensor,
    layout: Plan | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of the drive, of h0 and of c0 (LSTM); every tensor must be contiguous."""
    layout = layout or _chosen(call, True, states.device.index)
    steps, batch, units = states.shape
    grad_drive = states.new_empty(call.gates, steps, batch, units)
    grad_h0 = torch.empty_like(h0)
    grad_c0 = torch.empty_like(h0) if call.cell == "lstm" else None
    arguments = [grad_states, grad_cells, h0, c0, *_three(factors), masks, hold, hold_cell]
    arguments += [states, cells, saved, grad_drive, grad_h0, grad_c0]
    _launch(layout, arguments, states, steps, batch)
    return grad_drive, grad_h0, grad_c0
