"""The CUDA scans as plain functions of tensors: which kernel serves a call, and the call itself."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from passnet.ops.cuda import large, small
from passnet.ops.cuda.call import Call, Structure, describe, refuses_anywhere
from passnet.ops.cuda.compile import device_limits

Reset = Literal["after", "before"]


def _room(call: Call, device: int):
    """The module that serves a call, or the sentence why none does."""
    general = refuses_anywhere(call)
    if general is not None:
        return general
    processors, shared, _ = device_limits(device)
    if small.refuses(call, shared_limit=shared) is None:
        return small
    return large.refuses(call, processors=processors, shared_limit=shared) or large


def refuses(call: Call, *, device: int) -> str | None:
    """Why no kernel takes this call on this device, or None."""
    room = _room(call, device)
    return room if isinstance(room, str) else None


def _serve(call: Call, drive: Tensor):
    if drive.device.type != "cuda":
        raise ValueError(f"the CUDA scan needs tensors on a GPU, these are on {drive.device}.")
    room = _room(call, drive.device.index)
    if isinstance(room, str):
        raise ValueError(room)
    return room


def _dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _gru(drive, factors, structure, reset, masks, hold, inner_bias) -> Call:
    cell = "gru_after" if reset == "after" else "gru_before"
    return describe(
        drive, factors, cell=cell, structure=structure, masks=masks, hold=hold,
        inner_bias=inner_bias,
    )  # fmt: skip


def gru_forward(
    drive: Tensor,
    h0: Tensor,
    factors: tuple[Tensor, ...],
    *,
    structure: Structure,
    reset: Reset,
    masks: Tensor | None = None,
    hold: Tensor | None = None,
    inner_bias: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """States [T,B,n] of a GRU scan, and what gru_backward wants back."""
    call = _gru(drive, factors, structure, reset, masks, hold, inner_bias)
    if drive.shape[1] == 0 or drive.shape[2] == 0:
        kept = 4 if reset == "after" else 3
        return drive.new_empty(drive.shape[1:]), (drive.new_empty(kept, *drive.shape[1:]),)
    states, _, saved = _serve(call, drive).forward(
        call, drive.contiguous(), h0=h0.contiguous(), c0=None,
        factors=tuple(f.contiguous() for f in factors), masks=_dense(masks), hold=_dense(hold),
        hold_cell=None, inner_bias=_dense(inner_bias),
    )  # fmt: skip
    return states, (saved,)


def gru_backward(
    grad_states: Tensor,
    drive: Tensor,
    h0: Tensor,
    factors: tuple[Tensor, ...],
    states: Tensor,
    saved: tuple[Tensor, ...],
    *,
    structure: Structure,
    reset: Reset,
    masks: Tensor | None = None,
    hold: Tensor | None = None,
    inner_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of the drive [3,T,B,n] and of h0; drive itself is read only for its shape."""
    call = _gru(drive, factors, structure, reset, masks, hold, inner_bias)
    if drive.shape[1] == 0 or drive.shape[2] == 0:
        return drive.new_empty(drive.shape), h0.new_zeros(h0.shape)
    grad_drive, grad_h0, _ = _serve(call, drive).backward(
        call, grad_states.contiguous(), grad_cells=None, h0=h0.contiguous(), c0=None,
        factors=tuple(f.contiguous() for f in factors), masks=_dense(masks), hold=_dense(hold),
        hold_cell=None, states=states.contiguous(), cells=None, saved=saved[0],
    )  # fmt: skip
    return grad_drive, grad_h0


def lstm_forward(
    drive: Tensor,
    h0: Tensor,
    c0: Tensor,
    factors: tuple[Tensor, ...],
    *,
    structure: Structure,
    masks: Tensor | None = None,
    hold: Tensor | None = None,
    hold_cell: Tensor | None = None,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Hidden states and cells [T,B,n] of an LSTM scan, and what lstm_backward wants back."""
    call = describe(
        drive, factors, cell="lstm", structure=structure, masks=masks, hold=hold,
        hold_cell=hold_cell,
    )  # fmt: skip
    if drive.shape[1] == 0 or drive.shape[2] == 0:
        empty = drive.new_empty(drive.shape[1:])
        return empty, empty.clone(), (drive.new_empty(4, *drive.shape[1:]),)
    hidden, cells, saved = _serve(call, drive).forward(
        call, drive.contiguous(), h0=h0.contiguous(), c0=c0.contiguous(),
        factors=tuple(f.contiguous() for f in factors), masks=_dense(masks), hold=_dense(hold),
        hold_cell=_dense(hold_cell), inner_bias=None,
    )  # fmt: skip
    assert cells is not None
    return hidden, cells, (saved,)


def lstm_backward(
    grad_hidden: Tensor,
    grad_cells: Tensor | None,
    drive: Tensor,
    h0: Tensor,
    c0: Tensor,
    factors: tuple[Tensor, ...],
    hidden: Tensor,
    cells: Tensor,
    saved: tuple[Tensor, ...],
    *,
    structure: Structure,
    masks: Tensor | None = None,
    hold: Tensor | None = None,
    hold_cell: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the drive [4,T,B,n], of h0 and of c0."""
    call = describe(
        drive, factors, cell="lstm", structure=structure, masks=masks, hold=hold,
        hold_cell=hold_cell,
    )  # fmt: skip
    if drive.shape[1] == 0 or drive.shape[2] == 0:
        return drive.new_empty(drive.shape), h0.new_zeros(h0.shape), c0.new_zeros(c0.shape)
    grad_drive, grad_h0, grad_c0 = _serve(call, drive).backward(
        call, grad_hidden.contiguous(), grad_cells=_dense(grad_cells), h0=h0.contiguous(),
        c0=c0.contiguous(), factors=tuple(f.contiguous() for f in factors), masks=_dense(masks),
        hold=_dense(hold), hold_cell=_dense(hold_cell), states=hidden.contiguous(),
        cells=cells.contiguous(), saved=saved[0],
    )  # fmt: skip
    assert grad_c0 is not None
    return grad_drive, grad_h0, grad_c0
