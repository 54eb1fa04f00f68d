"""Launches of the small scan: one block for each sequence, all factors on one multiprocessor."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.compile import Kernel, device_limits, read_source
from passnet.ops.cuda.small_plan import Plan, plan


def refuses(call: Call, *, shared_limit: int) -> str | None:
    """Why one multiprocessor cannot hold this scan, or None."""
    for backward in (False, True):
        if plan(call, backward=backward, shared_limit=shared_limit) is None:
            rank = "a dense matrix" if call.rank is None else f"rank {call.rank}"
            return (
                f"{call.units} units with {rank} and {call.gates} gates do not fit the registers "
                "and shared memory of one multiprocessor."
            )
    return None


def source(*, backward: bool) -> str:
    """The text of one pass, to be compiled with a layout's options."""
    which = "backward" if backward else "forward"
    return read_source("common.cuh", "small_matrices.cuh", f"small_{which}.cu")


@cache
def _kernel(chosen: tuple[str, ...], backward: bool, shared: int, device: int) -> Kernel:
    name = "scan_backward" if backward else "scan_forward"
    text = source(backward=backward)
    return Kernel(text, name, device=device, options=chosen, shared=shared)


def kernel(layout: Plan, device: int) -> Kernel:
    """The compiled kernel of one layout."""
    backward = bool(layout.constants["BACKWARD"])
    return _kernel(layout.options(), backward, layout.shared_bytes, device)


def _chosen(call: Call, backward: bool, states: Tensor) -> Plan:
    limit = device_limits(states.device.index)[1]
    layout = plan(call, backward=backward, shared_limit=limit)
    if layout is None:
        raise ValueError(refuses(call, shared_limit=limit))
    if states.numel() * states.element_size() < 2**32:
        return layout
    return replace(layout, constants=layout.constants | {"WIDE": 1})


def _three(factors: tuple[Tensor, ...]) -> list[Tensor | None]:
    return [*factors, *[None] * (3 - len(factors))]


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
    device = drive.device.index
    layout = layout or _chosen(call, False, drive[0])
    _, steps, batch, units = drive.shape
    states = torch.empty_like(drive[0])
    cells = torch.empty_like(states) if call.cell == "lstm" else None
    kept = 3 if call.cell == "gru_before" else 4
    saved = drive.new_empty(kept, steps, batch, units)
    kernel(layout, device).launch(
        batch,
        layout.threads,
        [drive, h0, c0, *_three(factors), masks, hold, hold_cell, inner_bias,
         states, cells, saved, steps, batch],
    )  # fmt: skip
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
    device = states.device.index
    layout = layout or _chosen(call, True, states)
    steps, batch, units = states.shape
    grad_drive = states.new_empty(call.gates, steps, batch, units)
    grad_h0 = torch.empty_like(h0)
    grad_c0 = torch.empty_like(h0) if call.cell == "lstm" else None
    kernel(layout, device).launch(
        batch,
        layout.threads,
        [grad_states, grad_cells, h0, c0, *_three(factors), masks, hold, hold_cell,
         states, cells, saved, grad_drive, grad_h0, grad_c0, steps, batch],
    )  # fmt: skip
    return grad_drive, grad_h0, grad_c0
