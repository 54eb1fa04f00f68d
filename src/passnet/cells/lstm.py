"""The LSTM cell: parameters of equations 8 and 9."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from passnet.cells.recurrent import CarryBias, RecurrentCell
from passnet.config.chrono import Chrono
from passnet.equations import LSTM_GATES
from passnet.ops import LstmScan
from passnet.ops.inputs import Source


@final
class LstmCell(RecurrentCell):
    """Gates transform, carry, candidate and output; the state is (hidden, cell)."""

    gate_names = LSTM_GATES

    def set_carry_bias(self, value: CarryBias, generator: torch.Generator | None) -> None:
        """As for every cell; a spread of time scales also closes the transform gate to match."""
        super().set_carry_bias(value, generator)
        if isinstance(value, Chrono) and self.bias is not None:
            self.bias[0] = -self.bias[1]

    def scan(
        self,
        source: Source,
        initial: tuple[Tensor | None, ...],
        *,
        masks: Tensor | None,
        holds: tuple[Tensor | None, ...],
    ) -> LstmScan:
        hidden, cell = initial
        matrix = self.matrix
        return LstmScan(
            source,
            hidden,
            cell,
            matrix.factors_in(source.dtype),
            matrix.structure.name,
            masks,
            *holds,
        )
