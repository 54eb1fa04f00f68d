"""The two passes of a scan, for kernels of either family: what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from passnet.ops.cuda.call import Call
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.tensors import aligned
from passnet.ops.scan import ScanCall


def kept(found: Call, states: Tensor) -> list[Tensor]:
    """Room for what a forward leaves to the backward: its gates, and summaries of low ranks."""
    steps, batch, units = states.shape
    empty = states.new_empty
    if found.cell == "lstm":
        saved = [empty((4, steps, batch, units))]
    else:
        saved = [empty((1, steps, batch, units)), empty((3, steps, batch, units))]
    if found.rank is not None:
        saved.append(empty((steps, batch, found.slots, found.rank)))
    return saved


def drive_place(found: Call, saved: list[Tensor]) -> Tensor:
    """Where the drive lies before there are gates, and its gradient when they have been read.

    The reset gate has a place of its own: the weight gradients of factors are multiplied by it.
    """
    return saved[0 if found.cell == "lstm" else 1]


def _kept(found: Call, saved: list[Tensor]) -> Sequence[Tensor | None]:
    """The reset gate, all other gates, and summaries."""
    planes = (None, *saved) if found.cell == "lstm" else saved
    return (*planes, None)[:3]


class Given(NamedTuple):
    """What both passes are given, as kernels take it, in the order in which they do."""

    initial: Tensor | None
    initial_cell: Tensor | None
    left: Tensor  # or whole matrices
    right: Tensor | None
    diagonal: Tensor | None
    masks: Tensor | None
    hold: Tensor | None
    hold_cell: Tensor | None
    inner_bias: Tensor | None


def given(call: ScanCall, factors: Sequence[Tensor]) -> Given:
    """That of a call, with these factors."""
    states, others = (call.initial, call.initial_cell), (call.masks, call.hold, call.hold_cell)
    tensors = (*states, *(*factors, None, None)[:3], *others, call.inner_bias)
    given = [None if tensor is None else aligned(tensor) for tensor in tensors]
    return Given(*given)  # pyright: ignore


def forward(
    chip: Chip,
    family: ModuleType,
    found: Call,
    drive: Tensor,
    given: Given,
    outputs: Sequence[Tensor],
    saved: list[Tensor],
    layout=None,
) -> None:
    """Fill the outputs and what is kept for the backward; `drive` may lie in the gates' place."""
    states, cells = outputs[0], outputs[1] if len(outputs) > 1 else None
    arguments = [drive, *given, states, cells, *_kept(found, saved)]
    family.launch(chip, found, arguments, states, hold=given.hold, backward=False, layout=layout)


def backward(
    chip: Chip,
    family: ModuleType,
    found: Call,
    given: Given,
    grads: Sequence[Tensor | None],
    outputs: list[Tensor],
    saved: list[Tensor],
    *,
    grad_drive: Tensor,
    behind: Tensor | None = None,
    layout=None,
) -> tuple[list[Tensor], Tensor | None]:
    """Fill the drive's gradient; (those of the initial states, summaries for the weights').

    `behind` is filled too: with the gradient of the product that a reset gate follows.
    """
    states, cells = outputs[0], outputs[1] if len(outputs) > 1 else None
    grad_states, grad_cells = (*map(aligned, grads), None)[:2]
    if grad_states is None:
        grad_states = torch.zeros_like(states)
    starts = [torch.empty_like(start) for start in given[:2] if start is not None]
    reset, gates, summaries = _kept(found, saved)
    if summaries is not None:
        summaries = torch.empty_like(summaries)
    arguments = [grad_states, grad_cells, *given[:-1], states, cells, reset, gates, grad_drive,
                 behind, *(*starts, None, None)[:2], summaries]  # fmt: skip
    family.launch(chip, found, arguments, states, hold=given.hold, backward=True, layout=layout)
    return starts, summaries
