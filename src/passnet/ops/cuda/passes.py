"""The two passes of a scan, for kernels of either room: what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.tensors import dense
from passnet.ops.scan import ScanCall


def forward(
    chip: Chip,
    room: ModuleType,
    found: Call,
    call: ScanCall,
    drive: Tensor,
    *,
    outputs: list[Tensor],
    saved: list[Tensor],
    layout=None,
) -> None:
    """Fill the outputs and what is kept for the backward; `drive` may lie in the gates' room."""
    states, cells = outputs[0], outputs[1] if len(outputs) > 1 else None
    gates, summaries = (*saved, None)[:2]
    h0, c0, left, right, diagonal, masks, hold, hold_cell = _given(call)
    arguments = [drive, h0, c0, left, right, diagonal, masks, hold, hold_cell]
    arguments += [dense(call.inner_bias), states, cells, gates, summaries]
    room.launch(chip, found, arguments, states, hold=hold, backward=False, layout=layout)


def backward(
    chip: Chip,
    room: ModuleType,
    found: Call,
    call: ScanCall,
    *,
    grads: Sequence[Tensor | None],
    outputs: list[Tensor],
    saved: list[Tensor],
    grad_drive: Tensor,
    layout=None,
) -> tuple[list[Tensor], Tensor | None]:
    """Fill the drive's gradient; (those of the initial states, summaries for the weights')."""
    states, cells = outputs[0], outputs[1] if len(outputs) > 1 else None
    *_, hold, _ = given = _given(call)
    grad_states, grad_cells = (*map(dense, grads), None)[:2]
    if grad_states is None:
        grad_states = torch.zeros_like(states)
    starts = [torch.empty_like(start) for start in given[:2] if start is not None]
    summaries = None if found.rank is None else torch.empty_like(saved[1])
    arguments = [grad_states, grad_cells, *given, states, cells, saved[0]]
    arguments += [grad_drive, *(*starts, None)[:2], summaries]
    room.launch(chip, found, arguments, states, hold=hold, backward=True, layout=layout)
    return starts, summaries


def _given(call: ScanCall) -> list[Tensor | None]:
    """h0, c0, the three factors, masks, hold and hold_cell, as both passes take them."""
    factors = (*call.factors, None, None)[:3]
    fixed = (call.masks, call.hold, call.hold_cell)
    return [dense(t) for t in (call.initial, call.initial_cell, *factors, *fixed)]
