"""The two passes of a scan, for kernels of either room: what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from passnet.ops.cuda.call import KEPT, Call
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.tensors import aligned, dense
from passnet.ops.scan import ScanCall


def kept(found: Call, *, steps: int, like: Tensor) -> list[Tensor]:
    """Room for what a forward leaves to the backward: its gates, and summaries of low ranks.

    `like` is the state of a step, `[..., B, n]`.
    """
    batch, units = like.shape[-2:]
    gates = like.new_empty((KEPT, steps, batch, units))
    if found.rank is None:
        return [gates]
    return [gates, like.new_empty((steps, batch, found.slots, found.rank))]


def drive_room(found: Call, saved: list[Tensor]) -> Tensor:
    """Where the drive lies before there are gates, and its gradient when they have been read.

    The reset gate has a place of its own: the weight gradients of factors are multiplied by it.
    """
    return saved[0] if found.gates == KEPT else saved[0][KEPT - found.gates :]


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
    given, inner_bias = _given(call), dense(call.inner_bias)
    launch_forward(
        chip, room, found, drive, given, inner_bias, outputs=outputs, saved=saved, layout=layout
    )


def launch_forward(
    chip: Chip,
    room: ModuleType,
    found: Call,
    drive: Tensor,
    given: Sequence[Tensor | None],
    inner_bias: Tensor | None,
    *,
    outputs: Sequence[Tensor],
    saved: list[Tensor],
    layout=None,
) -> None:
    """`forward` of dense tensors; `given` are h0, c0, three factors, masks, hold and hold_cell."""
    states, cells = outputs[0], outputs[1] if len(outputs) > 1 else None
    arguments = [drive, *given, inner_bias, states, cells, *(*saved, None)[:2]]
    room.launch(chip, found, arguments, states, hold=given[6], backward=False, layout=layout)


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
    behind: Tensor | None = None,
    layout=None,
) -> tuple[list[Tensor], Tensor | None]:
    """Fill the drive's gradient; (those of the initial states, summaries for the weights').

    `behind` is filled too: with the gradient of the product that a reset gate follows.
    """
    states, cells = outputs[0], outputs[1] if len(outputs) > 1 else None
    *_, hold, _ = given = _given(call)
    grad_states, grad_cells = (*map(aligned, grads), None)[:2]
    if grad_states is None:
        grad_states = torch.zeros_like(states)
    starts = [torch.empty_like(start) for start in given[:2] if start is not None]
    summaries = None if found.rank is None else torch.empty_like(saved[1])
    arguments = [grad_states, grad_cells, *given, states, cells, saved[0]]
    arguments += [grad_drive, behind, *(*starts, None)[:2], summaries]
    room.launch(chip, found, arguments, states, hold=hold, backward=True, layout=layout)
    return starts, summaries


def _given(call: ScanCall) -> list[Tensor | None]:
    """h0, c0, the three factors, masks, hold and hold_cell, as both passes take them."""
    factors = (*call.factors, None, None)[:3]
    others = (*factors, call.masks, call.hold, call.hold_cell)
    return [
        aligned(call.initial),
        None if call.initial_cell is None else aligned(call.initial_cell),
        *[None if tensor is None else tensor.contiguous() for tensor in others],
    ]
