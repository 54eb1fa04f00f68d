"""The GRU cell: parameters of equations 6 and 7."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from passnet.cells.recurrent import CarryBias, RecurrentCell
from passnet.config.matrix import MatrixSpec
from passnet.equations import GRU_GATES
from passnet.equations.gru import Reset
from passnet.matrices.initialisation import fill_bias
from passnet.matrices.structured import stored
from passnet.ops import GruScan
from passnet.ops.inputs import Source
from passnet.ops.precision import in_dtype


@final
class GruCell(RecurrentCell):
    """Gates reset, carry and candidate; `inner_bias` [n] stands inside the reset-after product."""

    gate_names = GRU_GATES
    inner_bias: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        size: int,
        *,
        matrix: MatrixSpec,
        reset: Reset,
        inner_bias: bool,
        bias: bool = True,
        weight_norm: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(
            input_size,
            size,
            matrix=matrix,
            bias=bias,
            weight_norm=weight_norm,
            device=device,
            dtype=dtype,
        )
        self.reset: Reset = reset
        inner = nn.Parameter(torch.empty(size, device=device, dtype=dtype)) if inner_bias else None
        self.register_parameter("inner_bias", inner)

    @torch.no_grad()
    def start(
        self, init: str, *, carry_bias: CarryBias, generator: torch.Generator | None = None
    ) -> None:
        super().start(init, carry_bias=carry_bias, generator=generator)
        if self.inner_bias is not None:
            fill_bias(self.inner_bias, init, units=self.size, generator=generator)

    def twice_in_torch(self) -> Float[Tensor, "gates n"]:
        # The candidate's second one is `inner_bias`, where there is one.
        found = super().twice_in_torch()
        return found if self.inner_bias is None else found[:2]

    def scan(
        self,
        source: Source,
        initial: tuple[Tensor | None, ...],
        *,
        masks: Tensor | None,
        holds: tuple[Tensor | None, ...],
    ) -> GruScan:
        dtype, matrix, inner = source.dtype, self.matrix, stored(self, "inner_bias")
        return GruScan(
            source,
            initial[0],
            matrix.factors_in(dtype),
            matrix.structure.name,
            self.reset,
            masks,
            holds[0],
            None if inner is None else in_dtype(inner, dtype),
        )
