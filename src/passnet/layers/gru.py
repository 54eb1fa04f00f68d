"""A drop-in torch.nn.GRU whose state matrices have a structure."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from passnet.cells.gru import GruCell
from passnet.cells.recurrent import CarryBias
from passnet.config.matrix import Dense, MatrixSpec
from passnet.equations.gru import Reset
from passnet.layers.arguments import check_choice
from passnet.layers.describe import describe
from passnet.layers.dropout import Dropouts
from passnet.layers.recurrent import RecurrentLayer, States
from passnet.ops import GruScan, gru_backends
from passnet.ops.backend import Backend


@final
class GRU(RecurrentLayer):
    """torch.nn.GRU with `matrix=`, `reset=`, learnable starts and dropout inside the recurrence.

    The arguments up to `dtype` and all inputs and outputs are those of torch.nn.GRU. Without
    `matrix` the layer is dense and, with `reset="after"`, computes what torch.nn.GRU computes.

    matrix: the structure of the state matrices, such as `LowRankPlusDiagonal(rank=24)`.
    reset: the reset gate multiplies the state before the candidate's matrix, or its product after.
    carry_bias: where the carry gate's bias starts: a number (4 keeps most of the state), a vector,
        or `Chrono(t_max)` to spread the units over time scales.
    learn_initial_state: the state before the first step is a parameter, starting at zero.
    recurrent_bias: a second candidate bias behind the reset gate, as torch.nn.GRU has; by default
        present exactly where torch.nn.GRU has it (dense, reset-after, bias).
    weight_norm, max_row_norm: the paper's stabilised variant; call `clip_row_norms_(module)` after
        each optimiser step for the second.
    init: how parameters start; `passnet.config.initialisation` names the schemes.
    dropout_input, dropout_state, dropout_output: variational dropout, one mask for a whole
        sequence; `dropout_input_per="step"` drops whole input steps instead of features.
    zoneout: probability that a unit keeps its old value at a step.
    backend: "auto", or one named by `explain_backends(x)`, which then runs or raises its reason.
    """

    state_names = ("hidden",)
    torch_type = nn.GRU

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        matrix: MatrixSpec | None = None,
        reset: Reset = "after",
        carry_bias: CarryBias = None,
        learn_initial_state: bool = False,
        recurrent_bias: bool | None = None,
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
        check_choice("reset", reset, ("after", "before"))
        if recurrent_bias is None:
            recurrent_bias = _in_torch(bias, reset, matrix)
        if recurrent_bias and reset == "before":
            raise ValueError(
                "recurrent_bias=True with reset='before': there it adds to the ordinary bias; "
                "leave it out"
            )
        self.reset: Reset = reset
        self.recurrent_bias = recurrent_bias
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

    def _cell(self, input_size: int, *, bias: bool, weight_norm: bool, device, dtype) -> GruCell:
        return GruCell(
            input_size,
            self.hidden_size,
            matrix=self.matrix,
            reset=self.reset,
            inner_bias=self.recurrent_bias,
            bias=bias,
            weight_norm=weight_norm,
            device=device,
            dtype=dtype,
        )

    def _backends(self) -> tuple[Backend[GruScan], ...]:
        return gru_backends()

    def _split(self, hx: Tensor) -> States:
        if not isinstance(hx, Tensor):
            raise TypeError(f"the initial state is a {type(hx).__name__}: a GRU takes one tensor")
        return (hx,)

    def _join(self, parts) -> Tensor:
        return next(iter(parts))

    def extra_repr(self) -> str:
        usual = _in_torch(self.bias, self.reset, self.matrix)
        return describe(self, recurrent_bias=usual)

    def _refuses_torch(self) -> str | None:
        if self.reset == "before":
            return "reset='before'"
        if self.recurrent_bias and not self.bias:
            return "recurrent_bias but no other biases"
        return super()._refuses_torch()


def _in_torch(bias: bool, reset: Reset, matrix: MatrixSpec | None) -> bool:
    """Whether torch.nn.GRU has a recurrent bias there."""
    return bias and reset == "after" and isinstance(matrix, Dense | None)
