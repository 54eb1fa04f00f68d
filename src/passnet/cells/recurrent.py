"""What every recurrent cell holds: input matrices, biases and structured state matrices."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from passnet.config.chrono import Chrono
from passnet.config.matrix import MatrixSpec
from passnet.matrices import GateMatrix, build_matrix
from passnet.matrices.initialisation import fill_bias, fill_input
from passnet.matrices.structured import StructuredMatrix, stored, unit_rows
from passnet.ops.inputs import Inputs, Source, needs_gradient
from passnet.ops.precision import in_dtype
from passnet.ops.scan import ScanCall

CarryBias = float | Tensor | Chrono | None


class RecurrentCell(nn.Module, ABC):
    """One layer in one direction: everything parallel in time is `inputs`, the rest is `scan`."""

    gate_names: tuple[str, ...]
    input_weight: nn.Parameter
    input_weight_scale: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        size: int,
        *,
        matrix: MatrixSpec,
        bias: bool = True,
        weight_norm: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        gates = len(self.gate_names)
        self.input_size = input_size
        self.size = size
        self.weight_norm = weight_norm
        self.input_weight = nn.Parameter(torch.empty(gates, size, input_size, **place))
        scale = nn.Parameter(torch.empty(gates, size, **place)) if weight_norm else None
        self.register_parameter("input_weight_scale", scale)
        offset = nn.Parameter(torch.empty(gates, size, **place)) if bias else None
        self.register_parameter("bias", offset)
        self.recurrent = build_matrix(matrix, size, gates=gates, weight_norm=weight_norm, **place)

    @torch.no_grad()
    def start(
        self, init: str, *, carry_bias: CarryBias, generator: torch.Generator | None = None
    ) -> None:
        """Draw starting values; `carry_bias` replaces the carry gate's."""
        fill_input(self.input_weight, init, units=self.size, generator=generator)
        if self.input_weight_scale is not None:
            self.input_weight_scale.copy_(self.input_weight.norm(dim=-1))
        self.recurrent.start(init, generator=generator)
        if self.bias is not None:
            fill_bias(self.bias, init, units=self.size, generator=generator)
            if init == "torch":
                twice = self.twice_in_torch()
                second = torch.empty_like(twice)
                fill_bias(second, init, units=self.size, generator=generator)
                twice += second
            if carry_bias is not None:
                self.set_carry_bias(carry_bias, generator)

    def twice_in_torch(self) -> Float[Tensor, "gates n"]:
        """The biases that torch.nn has two of, and adds."""
        assert self.bias is not None
        return self.bias

    def set_carry_bias(self, value: CarryBias, generator: torch.Generator | None) -> None:
        """Fill the carry gate's bias with a number, a vector or a spread over time scales."""
        assert self.bias is not None
        carry = self.bias[self.gate_names.index("carry")]
        if isinstance(value, Chrono):
            scales = torch.empty(self.size, device="cpu")
            value = scales.uniform_(1, value.t_max - 1, generator=generator).log()
        carry.copy_(torch.as_tensor(value, dtype=carry.dtype, device=carry.device))

    def input_matrix(self) -> Float[Tensor, "gates n m"]:
        """The input matrices as the equations use them."""
        if not self.weight_norm:
            return stored(self, "input_weight")
        assert self.input_weight_scale is not None
        return unit_rows(stored(self, "input_weight")) * self.input_weight_scale.unsqueeze(-1)

    def inputs(
        self,
        x: Float[Tensor, "T B m"] | Int[Tensor, "T B"],
        dtype: torch.dtype,
        *,
        scale: Tensor | None = None,
    ) -> Inputs:
        """What drives this cell from outside, to be computed in `dtype`.

        Integer inputs are symbols, the same as one-hot vectors; `scale` [T, B] multiplies what a
        symbol contributes (for real inputs, scale the inputs themselves).
        """
        bias = stored(self, "bias")
        bias = None if bias is None else in_dtype(bias, dtype)
        matrix = in_dtype(self.input_matrix(), dtype)
        return Inputs(x, matrix, bias, scale, needs_gradient(x))

    @property
    def matrix(self) -> StructuredMatrix:
        """`recurrent`, by name: the attribute takes a microsecond more."""
        return self._modules["recurrent"]  # pyright: ignore

    @abstractmethod
    def scan(
        self,
        source: Source,
        initial: tuple[Tensor | None, ...],
        *,
        masks: Tensor | None,
        holds: tuple[Tensor | None, ...],
    ) -> ScanCall:
        """The call that runs this cell over time from its initial states."""

    def state_matrix(self, gate: str) -> GateMatrix:
        """The named gate's recurrent matrix."""
        if gate not in self.gate_names:
            names = ", ".join(repr(name) for name in self.gate_names)
            raise ValueError(f"there is no gate {gate!r} here: choose one of {names}")
        return self.recurrent.gate(self.gate_names.index(gate))

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.size}"


def read_carry_bias(value: CarryBias, *, size: int, bias: bool) -> CarryBias:
    """The carry bias that was asked for, a vector as a copy; raises a sentence for all others."""
    if value is None:
        return None
    if not bias:
        raise ValueError(f"carry_bias={value!r} needs biases: drop bias=False")
    if isinstance(value, Chrono):
        return value
    if isinstance(value, Tensor):
        if value.shape not in ((), (size,)):
            raise ValueError(
                f"carry_bias has shape {tuple(value.shape)}: give a number, a vector of "
                f"{size} (one for each unit) or Chrono(t_max)"
            )
        return value.detach().clone()
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        vector = f"a vector of {size} (as a tensor)"
        raise TypeError(f"carry_bias={value!r}: give a number, {vector} or Chrono(t_max)")
    return float(value)
