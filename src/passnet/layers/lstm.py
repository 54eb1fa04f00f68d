"""A drop-in replacement for torch.nn.LSTM with structured state matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn

from passnet.cells.lstm import LstmCell
from passnet.cells.recurrent import CarryBias
from passnet.config.matrix import MatrixSpec
from passnet.layers.dropout import Dropouts
from passnet.layers.recurrent import RecurrentLayer, States
from passnet.layers.torch_weights import refuse_projection
from passnet.ops import LstmScan, lstm_backends
from passnet.ops.backend import Backend


@final
class LSTM(RecurrentLayer[tuple[Tensor, Tensor]]):
    """An LSTM like torch.nn.LSTM, with structured state matrices and dropout in the recurrence.

    The arguments up to `dtype` and all inputs and outputs are those of torch.nn.LSTM; the others
    mean what they mean in `passnet.GRU`. The state is a pair (hidden, cell).

    carry_bias: the carry gate is the forget gate. `Chrono(t_max)` also sets the bias of the
        transform (input) gate to the negative of the carry gate's.
    proj_size: only 0 is accepted; the error for other values says what to use instead.

    Gates are "transform", "carry", "candidate" and "output" (torch.nn's i, f, g and o).
    """

    mode = "LSTM"
    state_names = ("hidden", "cell")
    torch_type = nn.LSTM

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        matrix: MatrixSpec | None = None,
        carry_bias: CarryBias = None,
        learn_initial_state: bool = False,
        weight_norm: bool = False,
        max_row_norm: float | None = None,
        init: str = "glorot",
        dropout_input: float = 0.0,
        dropout_input_per: str = "feature",
        dropout_state: float = 0.0,
        dropout_output: float = 0.0,
        zoneout: float = 0.0,
        backend: str = "auto",
    ) -> None:
        refuse_projection(proj_size)
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            matrix=matrix,
            carry_bias=carry_bias,
            learn_initial_state=learn_initial_state,
            weight_norm=weight_norm,
            max_row_norm=max_row_norm,
            init=init,
            dropouts=Dropouts(
                dropout_input, dropout_input_per, dropout_state, dropout_output, zoneout
            ),
            backend=backend,
        )

    def _cell(self, input_size: int, *, bias: bool, weight_norm: bool, device, dtype) -> LstmCell:
        return LstmCell(
            input_size,
            self.hidden_size,
            matrix=self.matrix,
            bias=bias,
            weight_norm=weight_norm,
            device=device,
            dtype=dtype,
        )

    def _backends(self) -> tuple[Backend[LstmScan], ...]:
        return lstm_backends()

    def _split(self, hx: Any) -> States:
        pair = isinstance(hx, tuple | list) and len(hx) == 2
        if not pair or not all(isinstance(part, Tensor) for part in hx):
            raise TypeError(
                f"the initial state is a {type(hx).__name__}: an LSTM takes a pair (hidden, cell) "
                "of tensors (numbers of steps go in lengths=)"
            )
        return tuple(hx)

    def _join(self, parts: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        hidden, cell = parts
        return hidden, cell
