"""A drop-in replacement for torch.nn.GRU with structured state matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn

from passnet.cells.gru import GruCell
from passnet.cells.recurrent import CarryBias
from passnet.config.matrix import Dense, MatrixSpec
from passnet.equations.gru import Reset
from passnet.layers.arguments import check_choice, check_flags
from passnet.layers.describe import describe
from passnet.layers.dropout import Dropouts
from passnet.layers.recurrent import RecurrentLayer, States
from passnet.ops import GruScan, gru_backends
from passnet.ops.backend import Backend


@final
class GRU(RecurrentLayer[Tensor]):
    """A GRU like torch.nn.GRU, with structured state matrices and dropout inside the recurrence.

    The arguments up to `dtype` and all inputs and outputs are those of torch.nn.GRU. Without
    `matrix` and `reset` the layer computes the same function as torch.nn.GRU.

    matrix: the structure of the state matrices, such as `LowRankPlusDiagonal(rank=24)`. The
        default is `Dense()`.
    reset: where the reset gate acts in the candidate: "after" multiplies the product of matrix
        and state, "before" multiplies the state that enters the matrix.
    carry_bias: the initial value of the carry gate's bias: a number (4 keeps most of the state),
        a tensor of `hidden_size` numbers, or `Chrono(t_max)` to spread units over time scales.
    learn_initial_state: makes the initial state a parameter, initialised to zero.
    recurrent_bias: a second candidate bias that the reset gate multiplies. By default the layer has
        it where torch.nn.GRU does: dense matrices, `reset="after"` and `bias=True`.
    weight_norm: gives the rows of matrices and factors trainable lengths, as in the paper.
    max_row_norm: the greatest row norm that `clip_row_norms_(module)` allows. Call that after each
        optimiser step; the layer does not do so itself.
    init: how parameters are initialised: "glorot", "orthogonal-normal", "uniform",
        "quasi-orthogonal", "balanced" or "torch".
    dropout_input, dropout_state, dropout_output: variational dropout: each sequence has one mask
        for all its steps. `dropout_input_per="step"` drops whole input steps instead of features.
    zoneout: the probability that a unit keeps its old value at a step.
    backend: "auto", or a name from `explain_backends(x)`. A named backend runs the call or raises
        `BackendRefused` with the reason.

    Gates are "reset", "carry" and "candidate" (torch.nn's r, z and n).
    """

    mode = "GRU"
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
        check_flags(bias=bias, recurrent_bias=recurrent_bias)
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

    def _split(self, hx: Any) -> States:
        if not isinstance(hx, Tensor):
            raise TypeError(
                f"the initial state is a {type(hx).__name__}: a GRU takes one tensor (numbers of "
                "steps go in lengths=)"
            )
        return (hx,)

    def _join(self, parts: Iterable[Tensor]) -> Tensor:
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
