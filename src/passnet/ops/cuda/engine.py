"""What the CUDA GRU and LSTM share: which kernel serves a call, and the call itself."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from passnet.ops.cuda import inputs as inputs_on_gpu
from passnet.ops.cuda import large, passes, small
from passnet.ops.cuda.call import (
    Call,
    Cell,
    describe,
    refuses_anywhere,
    refuses_device,
)
from passnet.ops.cuda.compile import device_limits
from passnet.ops.cuda.weights import recurrent_gradients
from passnet.ops.inputs import Inputs
from passnet.ops.scan import Engine, ScanCall

Scan = TypeVar("Scan", bound=ScanCall)


@cache
def room_of(call: Call, device: int):
    """The module that serves a call on a device, or the sentence why none does."""
    general = refuses_anywhere(call)
    if general is not None:
        return general
    processors, shared, _ = device_limits(device)
    if small.refuses(call, shared_limit=shared) is None:
        return small
    return large.refuses(call, processors=processors, shared_limit=shared) or large


class CudaEngine(Engine[Scan]):
    """Persistent kernels that keep state and factors on chip for a whole sequence.

    What the forward keeps: the gates of every step (reset first), and the d-wide summaries that
    the weight gradients are made of.
    """

    name = "cuda"

    @abstractmethod
    def cell(self, call: Scan) -> Cell:
        """Whose kernels serve a call."""

    @abstractmethod
    def plain_weight_gradients(
        self, call: Scan, grad_drive: Tensor, outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """Gradients of dense matrices, as large products."""

    def refuses(self, call: Scan) -> str | None:
        reason = refuses_device(call.device, call.structure)
        if reason is None:
            room = room_of(describe(call, self.cell(call)), call.device.index or 0)
            reason = room if isinstance(room, str) else None
        return reason

    def saved_like(self, call: Scan) -> list[Tensor]:
        return _saved(describe(call, self.cell(call)), call)

    def forward(self, call: Scan) -> list[Tensor]:
        found = describe(call, self.cell(call))
        outputs, saved = call.outputs_like(), _saved(found, call)
        if outputs[0].numel():
            room = _serve(found, call)
            passes.forward(room, found, call, _drive(call), outputs=outputs, saved=saved)
        return [*outputs, *saved]

    def backward(
        self, call: Scan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        found = describe(call, self.cell(call))
        if outputs[0].numel() == 0:
            live = (call.initial, call.initial_cell, *call.factors, call.inner_bias)
            rest = [torch.zeros_like(tensor) for tensor in live if tensor is not None]
            return [call.initial.new_zeros(call.shape), *rest]
        grad_drive, starts, summaries = passes.backward(
            _serve(found, call), found, call, grads=grads, outputs=outputs, saved=saved
        )
        if summaries is None:
            rest = self.plain_weight_gradients(call, grad_drive, outputs, saved)
        else:
            rest = recurrent_gradients(
                found, call, grad_drive, states=outputs[0], saved=saved, grad_summaries=summaries
            )
        return [grad_drive, *starts, *rest]

    def input_gradients(self, inputs: Inputs, grad_drive: Tensor) -> tuple[Tensor, Tensor | None]:
        serve = inputs_on_gpu.serves(inputs)
        return (
            inputs_on_gpu.gradients(inputs, grad_drive) if serve else inputs.gradients(grad_drive)
        )


def _drive(call: ScanCall) -> Tensor:
    source = call.source
    if isinstance(source, Inputs) and inputs_on_gpu.serves(source):
        return inputs_on_gpu.form_drive(source)
    return call.drive.contiguous()


def _saved(found: Call, call: ScanCall) -> list[Tensor]:
    _, steps, batch, units = call.shape
    gates = call.initial.new_empty((found.kept, steps, batch, units))
    if found.rank is None:
        return [gates]
    shape = (steps, batch, found.slots, found.rank)
    return [gates, call.initial.new_empty(shape, dtype=torch.float32)]


def _serve(found: Call, call: ScanCall):
    if call.device.type != "cuda":
        raise ValueError(f"the CUDA scan needs tensors on a GPU, these are on {call.device}.")
    room = room_of(found, call.device.index)
    if isinstance(room, str):
        raise ValueError(room)
    return room
