"""The kernels of a Highway layer: batch normalisation and the gate, one launch each way."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil
from typing import final

import torch
from torch import Tensor

from passnet.equations.batch_norm import EPSILON, MOMENTUM
from passnet.ops.cuda.chip import Chip, chip_of
from passnet.ops.cuda.compile import macros, read_source
from passnet.ops.cuda.launches import Launches
from passnet.ops.cuda.tensors import dense
from passnet.ops.transforms import plain_only, stand_in

COLUMNS, NORM_THREADS = 32, 512
"""Columns of a block that normalises, and its threads: `normalise.cu` has the same."""
GATE_THREADS = 256
RELU = {"relu": 1, "tanh": 0}
"""The activations that the gate knows, by the macro that chooses."""


def norm_source() -> str:
    """The text of both passes of batch normalisation."""
    return read_source("ptx.cuh", "common.cuh", "normalise.cu")


def norm_options() -> tuple[str, ...]:
    """Its macros."""
    return macros({"IO_TYPE": 0, "EPSILON": f"{EPSILON}f", "MOMENTUM": f"{MOMENTUM}f"})


def gate_source() -> str:
    """The text of both passes of the gate."""
    return read_source("ptx.cuh", "common.cuh", "gate.cu")


def gate_options(activation: str) -> tuple[str, ...]:
    """Its macros."""
    return macros({"IO_TYPE": 0, "RELU": RELU[activation]})


@cache
def _norm_kernel(chip: Chip, name: str) -> Launches:
    return chip.kernel(norm_source(), name, options=norm_options(), shared=0)


@cache
def _gate_kernel(chip: Chip, name: str, activation: str) -> Launches:
    return chip.kernel(gate_source(), name, options=gate_options(activation), shared=0)


@final
class HighwayKernels:
    """They serve float32 on a GPU where nothing but ordinary autograd is around the call."""

    def __init__(self) -> None:
        """Tests put an emulated chip, and the type of its tensors, in the place of a GPU."""
        self.chip_of: Callable[[torch.device], Chip] = chip_of
        self.device_type = "cuda"

    def normalises(
        self, x: Tensor, mean: Tensor, deviation: Tensor, scale: Tensor | None, shift: Tensor | None
    ) -> bool:
        """Whether `normalise` serves these tensors."""
        if plain_only() or self.refuses(x, mean, deviation, scale, shift) is not None:
            return False
        row = x.shape[:-2] + x.shape[-1:]
        given = [t for t in (mean, deviation, scale, shift) if t is not None]
        # The statistics are written where they lie; the others may be copied.
        written = mean.is_contiguous() and deviation.is_contiguous()
        return x.dim() in (2, 3) and written and all(t.shape == row for t in given)

    def gates(self, state: Tensor, before: Tensor, activation: str) -> bool:
        """Whether `gate` serves these tensors and this activation."""
        if activation not in RELU or plain_only() or self.refuses(state, before) is not None:
            return False
        return before.shape == (2, *state.shape)

    def refuses(self, *tensors: Tensor | None) -> str | None:
        """Why no kernel can be made for tensors of this kind in this place, or None."""
        given = [tensor for tensor in tensors if tensor is not None]
        for tensor in given:
            if tensor.device.type != self.device_type:
                return f"the CUDA kernels run on a GPU and this call is on {tensor.device.type}"
            if tensor.dtype != torch.float32:
                given_type = str(tensor.dtype).removeprefix("torch.")
                return f"the CUDA kernels of Highway compute in float32, not {given_type}"
            if tensor.numel() == 0:
                return "there is nothing to compute"
        kind = stand_in(*given)
        if kind is not None:
            return f"the CUDA kernels read memory, and a {kind} has none of its own"
        return self.chip_of(given[0].device).unavailable

    def normalise(
        self, x: Tensor, mean: Tensor, deviation: Tensor, scale: Tensor | None, shift: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(the result, statistics for the backward); moves `mean` and `deviation`."""
        rows = _stacked(x)
        out, statistics = x.new_empty(x.shape), x.new_empty(3, *mean.shape)
        given = [_lying(rows), dense(scale), dense(shift), mean, deviation]
        self._normalise("normalise_forward", rows, [*given, out, statistics])
        return out, statistics

    def normalise_backward(
        self, grad: Tensor, x: Tensor, statistics: Tensor, scale: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of x, of a scale and of a shift."""
        rows = _stacked(x)
        # Laid out like x, for the product that x comes from.
        dx = torch.empty_like(rows)
        dscale, dshift = torch.empty_like(statistics[:2]).unbind()
        given = [_lying(rows), dense(grad), statistics, dense(scale)]
        self._normalise("normalise_backward", rows, [*given, _lying(dx), dscale, dshift])
        return dx.view(x.shape), dscale, dshift

    def _normalise(self, name: str, rows: Tensor, arguments: list) -> None:
        stack, count, columns = rows.shape
        strides = rows.stride()[:2]
        _norm_kernel(self.chip_of(rows.device), name).launch(
            (ceil(columns / COLUMNS), stack, 1),
            NORM_THREADS,
            [*arguments, *strides, count, columns],
        )

    def gate(self, state: Tensor, before: Tensor, activation: str) -> Tensor:
        """The next state."""
        out = state.new_empty(state.shape)
        self._gate("gate_forward", activation, [dense(state), dense(before), out])
        return out

    def gate_backward(
        self, grad: Tensor, state: Tensor, before: Tensor, activation: str
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the state and of what is before the activations."""
        dstate, dbefore = state.new_empty(state.shape), before.new_empty(before.shape)
        given = [dense(grad), dense(state), dense(before)]
        self._gate("gate_backward", activation, [*given, dstate, dbefore])
        return dstate, dbefore

    def _gate(self, name: str, activation: str, arguments: list) -> None:
        count = arguments[0].numel()
        kernel = _gate_kernel(self.chip_of(arguments[0].device), name, activation)
        kernel.launch((ceil(count / GATE_THREADS), 1, 1), GATE_THREADS, [*arguments, count])


def _stacked(x: Tensor) -> Tensor:
    """x as [stack, N, features], copied unless it or its transpose is dense."""
    x = x.resolve_neg()
    rows = x if x.dim() == 3 else x.unsqueeze(0)
    return rows if _lying(rows).is_contiguous() else rows.contiguous()


def _lying(rows: Tensor) -> Tensor:
    """The same numbers in the order in which they lie in memory."""
    return rows if rows.is_contiguous() else rows.transpose(0, 1)


KERNELS = HighwayKernels()
