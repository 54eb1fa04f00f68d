"""What the compiled GRU and LSTM share: what they refuse, and a call laid out for the library."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from passnet.ops.cell_tensors import GATES
from passnet.ops.cpu.gradients import (
    factor_gradients,
    features_gradient,
    input_gradients,
    summaries_like,
)
from passnet.ops.cpu.library import CELLS, Library, ScanStruct, as_it_lies, installed
from passnet.ops.inputs import Inputs
from passnet.ops.scan import Engine, ScanCall, filled

_STRUCTURES = ("dense", "low_rank", "low_rank_plus_diagonal")
_DTYPES = (torch.float32, torch.float64)
FEWEST, MOST_BYTES = 4, 1 << 20
"""A scan multiplies features itself from so many sequences on, and where their matrices have at
most so many bytes for each: with fewer it would wait for the matrices at every step."""


Call = TypeVar("Call", bound=ScanCall)


class CpuEngine(Engine[Call]):
    """Vectorised C over a few sequences at a time; each thread has sequences of its own.

    What the forward keeps: some numbers of every unit at every step, gates among them, and the
    summaries that the gradients of low-rank factors are made of.
    """

    name = "cpu"
    reads_memory = True
    overwrites = True
    kept: ClassVar[int]
    """How many numbers of a unit the forward keeps at a step."""

    def __init__(self, library: Library | str | None = None) -> None:
        self._given = library

    @property
    def library(self) -> Library | str:
        """The compiled scans, or a sentence saying why there are none."""
        return installed() if self._given is None else self._given

    @abstractmethod
    def cell(self, call: Call) -> str:
        """The kind of cell that the library is to run."""

    @abstractmethod
    def plain_weight_gradients(
        self, call: Call, grad_drive: Tensor, outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """Gradients of dense matrices, as large products."""

    def refuses(self, call: Call) -> str | None:
        if call.device.type != "cpu":
            return f"the compiled CPU scan runs on the CPU and this call is on {call.device.type}"
        if call.dtype not in _DTYPES:
            return f"the compiled CPU scan computes float32 and float64, not {_word(call.dtype)}"
        if call.structure not in _STRUCTURES:
            return f"the compiled CPU scan has no {call.structure.replace('_', '-')} matrices"
        library = self.library
        return library if isinstance(library, str) else None

    def saved_like(self, call: Call) -> list[Tensor]:
        return [call.like.new_empty((self.kept, *call.shape[1:])), *self._summaries_like(call)]

    def forward(self, call: Call) -> list[Tensor]:
        return self._scan(call, [*call.outputs_like(), *self.saved_like(call)])

    def outputs(self, call: Call) -> list[Tensor]:
        return self._scan(call, call.outputs_like())

    def _scan(self, call: Call, results: list[Tensor]) -> list[Tensor]:
        struct, keep = lay_out(self.cell(call), call, forward=True)
        names = (*("states", "cells")[: call.output_count], "kept", "summaries")
        keep += [point(struct, *pair) for pair in zip(names, results, strict=False)]
        self._loaded.run(struct, backward=False)
        return results

    def backward(
        self, call: Call, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        return self._gradients(call, grads, outputs, saved, call.like.new_empty(call.shape))

    def last_backward(
        self,
        call: Call,
        grads: Sequence[Tensor | None],
        outputs: list[Tensor],
        saved: list[Tensor],
    ) -> list[Tensor]:
        if isinstance(call.source, Tensor):  # a gradient of its own, which may be kept and changed
            return super().last_backward(call, grads, outputs, saved)
        # Where the gates lie but the first: their pages are there already.
        place = saved[0][-call.shape[0] :]
        return self._gradients(call, filled(grads, outputs), outputs, saved, place)

    def _gradients(
        self,
        call: Call,
        grads: list[Tensor],
        outputs: list[Tensor],
        saved: list[Tensor],
        grad_drive: Tensor,
    ) -> list[Tensor]:
        """`backward`, with the gradient of the drive written to `grad_drive`."""
        struct, keep = lay_out(self.cell(call), call)
        starts = [torch.empty(call.states_shape[1:], dtype=call.dtype) for _ in outputs]
        back = self._summaries_like(call)
        for names, tensors in (
            (("states", "cells"), outputs),
            (("kept",), saved),
            (("grad_states", "grad_cells"), grads),
            (("grad_drive",), [grad_drive]),
            (("grad_initial", "grad_initial_cell"), starts),
            (("summaries",), back),
        ):
            keep += [point(struct, *pair) for pair in zip(names, tensors, strict=False)]
        self._loaded.run(struct, backward=True)
        if back:
            rest = factor_gradients(self._loaded, struct, call, saved[1])
        else:
            rest = self.plain_weight_gradients(call, grad_drive, outputs, saved)
        return [grad_drive, *starts, *rest]

    def _summaries_like(self, call: Call) -> list[Tensor]:
        return summaries_like(call, vectors=2 if self.cell(call) == "gru_before" else 1)

    def input_gradients(
        self, inputs: Inputs, grad_drive: Tensor, call: Call
    ) -> tuple[Tensor, Tensor | None]:
        if not inputs.x.is_floating_point():
            return super().input_gradients(inputs, grad_drive, call)
        return input_gradients(self._loaded, inputs, grad_drive)

    def features_gradient(self, inputs: Inputs, grad_drive: Tensor) -> Tensor:
        return features_gradient(self._loaded, inputs, grad_drive)

    @property
    def _loaded(self) -> Library:
        library = self.library
        if isinstance(library, str):
            raise RuntimeError(library)
        return library


def lay_out(cell: str, call: ScanCall, *, forward: bool = False) -> tuple[ScanStruct, list[Tensor]]:
    """The call as the library reads it, and the tensors that it points into.

    Only the forward reads what drives the scan.
    """
    gates, steps, batch, units = call.shape
    if gates != GATES[cell]:
        raise ValueError(f"the drive has {gates} gates: expected {GATES[cell]}, those of {cell}")
    expand, *others = call.factors
    project, diagonal = (*others, None, None)[:2]
    rank = 0 if project is None else project.shape[1]
    tied = project is not None and project.shape[0] == 1
    mask_count = 0 if call.masks is None else call.masks.shape[0]
    hold_width = 0 if call.hold is None else call.hold.shape[-1]
    hold_cell_width = 0 if call.hold_cell is None else call.hold_cell.shape[-1]
    given = driving(call) if forward else {}
    width = given["weight"].shape[-1] if "weight" in given else 0
    struct = ScanStruct(
        CELLS[cell], call.dtype == torch.float64, steps, batch, units, rank, tied, mask_count,
        hold_width, hold_cell_width, torch.get_num_threads(), width,
    )  # fmt: skip
    per_sequence = (batch, units)
    wanted = (
        ("drive", given.get("drive"), (gates, steps, batch, units)),
        ("input", given.get("input"), (steps, batch, width)),
        ("weight", given.get("weight"), (gates, units, width)),
        ("bias", given.get("bias"), (gates, units)),
        ("initial", call.initial, per_sequence),
        ("initial_cell", call.initial_cell, per_sequence),
        ("expand", expand, (gates, units, rank or units)),
        ("project", project, (1 if tied else gates, rank, units)),
        ("diagonal", diagonal, (gates, units)),
        ("masks", call.masks, (1 if mask_count == 1 else gates, batch, units)),
        ("hold", call.hold, (steps, batch, 1 if hold_width == 1 else units)),
        ("hold_cell", call.hold_cell, (steps, batch, 1 if hold_cell_width == 1 else units)),
        ("inner_bias", call.inner_bias, (units,)),
    )
    keep = [point(struct, "symbols", given["symbols"])] if "symbols" in given else []
    for name, tensor, shape in wanted:
        if tensor is None:
            continue
        if tensor.shape != shape or tensor.dtype != call.dtype:
            raise ValueError(
                f"{name} is {tuple(tensor.shape)} of {_word(tensor.dtype)}: expected {shape} of "
                f"{_word(call.dtype)}, to match the drive {tuple(call.shape)}"
            )
        keep.append(point(struct, name, tensor))
    return struct, keep


def driving(call: ScanCall) -> dict[str, Tensor]:
    """What drives the scan, by the fields of the struct: the drive, or what the scan forms it from
    a few units at a time. A drive of all steps is written and read again from beyond the caches."""
    source = call.source
    if isinstance(source, Tensor):
        return {"drive": source}
    x, weight, count = source.x, source.weight, source.weight.shape[-1]
    if x.is_floating_point():
        name, itself = "input", x.shape[1] >= FEWEST and weight.nbytes <= x.shape[1] * MOST_BYTES
    else:
        name, itself = "symbols", source.scale is None and x.numel() >= count
    if not itself:
        return {"drive": call.drive}
    if name == "symbols":
        low, high = x.aminmax()
        if low < 0 or high >= count:
            raise IndexError(f"the symbols go from {low} to {high}: expected 0 to {count - 1}")
        x = x.long()
    found = {name: x, "weight": weight}
    return found if source.bias is None else found | {"bias": source.bias}


def point(struct: ScanStruct, name: str, tensor: Tensor) -> Tensor:
    """Let a field point at a tensor; the one returned must live as long as the struct is used."""
    tensor = as_it_lies(tensor)
    setattr(struct, name, tensor.data_ptr())
    return tensor


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
