"""What the CUDA GRU and LSTM share: which kernel serves a call, and the call itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from passnet.ops.cuda import inputs as inputs_on_gpu
from passnet.ops.cuda import passes, whole
from passnet.ops.cuda.call import Cell, describe, facts, known, refuses_device
from passnet.ops.cuda.chip import Chip, chip_of
from passnet.ops.cuda.families import Families, Served, fastest_family, served_by
from passnet.ops.cuda.tape import Tape, record
from passnet.ops.cuda.tensors import aligned
from passnet.ops.cuda.weights import needs_behind, recurrent_gradients, sums_up
from passnet.ops.inputs import Inputs
from passnet.ops.scan import Engine, ScanCall
from passnet.ops.transforms import captured

Scan = TypeVar("Scan", bound=ScanCall)


class CudaEngine(Engine[Scan]):
    """Persistent kernels that keep state and factors on chip for a whole sequence.

    What the forward keeps: the gates of every step (a reset gate first, in a tensor of its own),
    and the d-wide summaries that the weight gradients are made of, or the matrices that were
    multiplied out. The gates take the place of the drive, the gradient of the drive takes that of
    the gates: each step is read before it is written.
    """

    name = "cuda"
    reads_memory = True
    overwrites = True
    starts_from_nothing = True
    records = True

    def __init__(
        self,
        chips: Callable[[torch.device], Chip] = chip_of,
        families: Families = fastest_family,
    ) -> None:
        """`chips` says what tensors are on, `families` whose kernels serve a call there."""
        self._chip_of, self._family_of = chips, families

    @abstractmethod
    def cell(self, call: Scan) -> Cell:
        """Whose kernels serve a call."""

    @abstractmethod
    def plain_weight_gradients(
        self, call: Scan, grad_drive: Tensor, outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """Gradients of dense matrices, as large products."""

    def refuses(self, call: Scan) -> str | None:
        device = call.device
        reason = refuses_device(device, call.structure)
        if reason is None:
            reason = self._refuses_kernel(facts(call, self.cell(call)), device)
        return reason

    # Layouts are searched in Python that a tracer must not walk through.
    @torch.compiler.assume_constant_result
    def _refuses_kernel(self, facts: tuple, device: torch.device) -> str | None:
        chip = self._chip_of(device)
        if chip.unavailable is not None:
            return chip.unavailable
        family = self._family_of(known(*facts), chip)
        return family if isinstance(family, str) else None

    def saved_like(self, call: Scan) -> list[Tensor]:
        served = self._served(call)
        if served.instead is None:
            return passes.kept(served.found, call.outputs_like()[0])
        gates, units = served.found.gates, served.found.units
        saved = passes.kept(served.instead.found, call.outputs_like()[0])
        return [*saved, call.like.new_empty(gates, units, units)]

    def forward(self, call: Scan) -> list[Tensor]:
        served = self._served(call)
        if served.instead is None:
            return _forward(served, call, call.factors)
        matrices = whole.matrices(served.chip, served.found, call.factors)
        return [*_forward(served.instead, call, (matrices,)), matrices]

    def backward(
        self, call: Scan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return self._backward(call, grads, outputs, saved, alone=True)

    def last_backward(
        self,
        call: Scan,
        grads: Sequence[Tensor | None],
        outputs: list[Tensor],
        saved: list[Tensor],
    ) -> list[Tensor]:
        # A drive that was given has a gradient of its own, which may be kept and changed; a graph
        # that holds the backward alone may be replayed.
        alone = isinstance(call.source, Tensor) or captured(call.like)
        return self._backward(call, grads, outputs, saved, alone=alone)

    def _backward(
        self,
        call: Scan,
        grads: Sequence[Tensor | None],
        outputs: list[Tensor],
        saved: list[Tensor],
        *,
        alone: bool,
    ) -> list[Tensor]:
        """Gradients from those of the outputs; `alone` leaves what was saved as it is."""
        served = self._served(call)
        outputs, saved = [aligned(part) for part in outputs], [aligned(part) for part in saved]
        if served.instead is None:
            return self._gradients(served, call, call.factors, grads, outputs, saved, alone)
        *saved, matrices = saved
        found = self._gradients(served.instead, call, (matrices,), grads, outputs, saved, alone)
        at = 1 if call.initial is None else 1 + call.output_count
        found[at : at + 1] = whole.factor_gradients(
            served.chip, served.found, call.factors, found[at]
        )
        return found

    def _gradients(
        self,
        served: Served,
        call: Scan,
        factors: Sequence[Tensor],
        grads: Sequence[Tensor | None],
        outputs: list[Tensor],
        saved: list[Tensor],
        alone: bool,
    ) -> list[Tensor]:
        states = outputs[0]
        if states.numel() == 0:
            live = (call.initial, call.initial_cell, *factors, call.inner_bias)
            rest = [torch.zeros_like(tensor) for tensor in live if tensor is not None]
            return [call.like.new_zeros(call.shape), *rest]
        found, chip, family, _ = served
        drive = call.like.new_empty(call.shape) if alone else passes.drive_place(found, saved)
        behind = None
        if needs_behind(found):  # in the place of the reset gate
            behind = torch.empty_like(saved[0]) if alone else saved[0]
        given = passes.given(call, factors)
        starts, summaries = passes.backward(
            chip, family, found, given, grads, outputs, saved, grad_drive=drive, behind=behind
        )
        if sums_up(found):
            rest = recurrent_gradients(
                chip, found, given, drive, states, saved, grad_summaries=summaries, behind=behind
            )
        else:
            rest = self.plain_weight_gradients(call, drive, outputs, saved)
        return [drive, *starts, *rest]

    def input_gradients(
        self, inputs: Inputs, grad_drive: Tensor, call: Scan
    ) -> tuple[Tensor, Tensor | None]:
        rests = call.hold is not None and describe(call, self.cell(call)).rests
        holds = (call.hold, call.hold_cell) if rests else (None, None)
        return inputs_on_gpu.gradients(inputs, grad_drive, self._chip_of(call.device), holds=holds)

    def record(
        self, given: Sequence[Tensor], work: Callable[[], list[Tensor]]
    ) -> tuple[list[Tensor], Tape | None]:
        return record(given, work)

    def _served(self, call: Scan) -> Served:
        chip = self._chip_of(call.device)
        return served_by(self._family_of, facts(call, self.cell(call)), chip)


def _forward(served: Served, call: ScanCall, factors: Sequence[Tensor]) -> list[Tensor]:
    found, chip, family, _ = served
    outputs = call.outputs_like()
    saved = passes.kept(found, outputs[0])
    if outputs[0].numel():
        drive = inputs_on_gpu.drive_of(call.source, chip, out=passes.drive_place(found, saved))
        passes.forward(chip, family, found, drive, passes.given(call, factors), outputs, saved)
    return [*outputs, *saved]
