"""The CUDA scan of the unitary RNN as an engine of the registered op."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from passnet.ops.cuda import inputs as inputs_on_gpu
from passnet.ops.cuda.call import refuses_device
from passnet.ops.cuda.chip import Chip, chip_of
from passnet.ops.cuda.tensors import dense
from passnet.ops.cuda.unitary import prepared, refuses
from passnet.ops.inputs import Inputs
from passnet.ops.scan import Engine
from passnet.ops.unitary_scan.call import UnitaryScan


@final
class CudaUnitary(Engine[UnitaryScan]):
    """Keeps what both reflections read, their sums, and the scale of every modulus."""

    name = "cuda"
    reads_memory = True

    def __init__(self, chips: Callable[[torch.device], Chip] = chip_of) -> None:
        """`chips` says what tensors are on."""
        self._chip_of = chips

    def refuses(self, call: UnitaryScan) -> str | None:
        reason = refuses_device(call.device, call.structure)
        if reason is None and call.dtype != torch.float32:
            given = str(call.dtype).removeprefix("torch.")
            reason = f"the CUDA scan of complex units computes in float32, not {given}"
        return reason or self._refuses_size(call.shape[-1], call.device)

    # Layouts are searched in Python that a tracer must not walk through.
    @torch.compiler.assume_constant_result
    def _refuses_size(self, units: int, device: torch.device) -> str | None:
        chip = self._chip_of(device)
        return chip.unavailable or refuses(units, shared_limit=chip.shared_limit)

    def saved_like(self, call: UnitaryScan) -> list[Tensor]:
        _, *rows, units = call.shape
        spectra = call.initial.new_empty((2, *rows, units), dtype=torch.complex64)
        sums = call.initial.new_empty((*rows, 2), dtype=torch.complex64)
        return [spectra, call.initial.new_empty((*rows, units)), sums]

    def forward(self, call: UnitaryScan) -> list[Tensor]:
        outputs, saved = call.outputs_like(), self.saved_like(call)
        if outputs[0].numel():
            drive = inputs_on_gpu.drive_of(call.source, self._chip_of(call.device))
            fixed = [*_factors(call), dense(call.modulus_bias), dense(call.hold)]
            self._launch(call, [drive], [*fixed, *outputs, *saved], backward=False)
        return [*outputs, *saved]

    def backward(
        self, call: UnitaryScan, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        batch, units = call.initial.shape[0], call.shape[-1]
        grad_drive = call.initial.new_empty(call.shape)
        grad_initial = call.initial.new_zeros((batch, 2 * units))
        parts = call.initial.new_zeros((batch, 8, units))
        if outputs[0].numel():
            rest = [
                *_factors(call),
                dense(call.hold),
                *outputs,
                *saved,
                grad_drive,
                grad_initial,
                parts,
            ]
            self._launch(call, [dense(grads[0])], rest, backward=True)
        angles, bias, vectors = (part.sum(0) for part in parts.split((3, 1, 4), dim=1))
        reflections = vectors.unflatten(0, (2, 2)).mT.contiguous()
        return [grad_drive, grad_initial, angles, reflections, bias.squeeze(0)]

    def input_gradients(
        self, inputs: Inputs, grad_drive: Tensor, call: UnitaryScan
    ) -> tuple[Tensor, Tensor | None]:
        return inputs_on_gpu.gradients(inputs, grad_drive, self._chip_of(grad_drive.device))

    def _launch(self, call: UnitaryScan, first: list, rest: list, *, backward: bool) -> None:
        _, steps, batch, units = call.shape
        chip = self._chip_of(call.device)
        kernel, threads, tables = prepared(units, backward, chip, call.device)
        arguments = [*first, dense(call.initial), tables, *rest, steps, batch]
        kernel.launch((batch, 1, 1), threads, arguments)


def _factors(call: UnitaryScan) -> list[Tensor]:
    """Rotations, reflection vectors with the strength of each, and the permutation."""
    angles, reflections = call.factors
    turns = torch.polar(torch.ones_like(angles), angles).contiguous()
    strengths = 2 / reflections.square().sum((1, 2))
    vectors = torch.complex(*reflections.unbind(-1))
    return [turns, vectors, strengths, call.permutation.contiguous()]
