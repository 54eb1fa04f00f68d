"""A stack of Highway layers: the paper's appendix A.1."""

from __future__ import annotations

from numbers import Real
from typing import cast, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from passnet.cells.highway import HighwayCell
from passnet.config.initialisation import check_initialisation
from passnet.config.matrix import Dense, MatrixSpec
from passnet.layers.arguments import (
    check_choice,
    check_dtype,
    check_flags,
    check_probability,
    check_row_norm,
    check_sizes,
)
from passnet.layers.describe import unusual
from passnet.layers.scripting import refuse_proxy, refuse_script
from passnet.matrices import GateMatrix
from passnet.ops.highway_gate import ACTIVATIONS, highway_backends

_USUAL = {
    "num_layers": 1,
    "activation": "relu",
    "transform_bias": -1.0,
    "batch_norm": False,
    "dropout": 0.0,
    "dropout_bottleneck": 0.0,
    "max_row_norm": None,
    "init": "glorot",
}


@final
class Highway(nn.Module):
    """A stack of `num_layers` Highway layers, each with its own parameters; `size` in, `size` out.

    matrix: the structure of the candidate's and the transform gate's matrices. The default is
        `Dense()`.
    activation: the candidate's activation, "relu" or "tanh".
    transform_bias: the initial value of the transform gates' biases. Below zero the state mostly
        passes through.
    batch_norm: batch norm after the matrices, and between the factors of a low-rank matrix. It
        adds 1e-4 to the standard deviation, as the author's code does.
    dropout: the probability of dropping a value that enters the matrices; the carried state is not
        affected.
    dropout_bottleneck: the same between the two factors of a low-rank matrix.
    max_row_norm: the greatest row norm that `clip_row_norms_(module)` allows.
    init: how parameters are initialised, as in `passnet.GRU`.

    Gates are "candidate" and "transform".
    """

    def __init__(
        self,
        size: int,
        num_layers: int = 1,
        *,
        matrix: MatrixSpec | None = None,
        activation: str = "relu",
        transform_bias: float = -1.0,
        batch_norm: bool = False,
        dropout: float = 0.0,
        dropout_bottleneck: float = 0.0,
        max_row_norm: float | None = None,
        init: str = "glorot",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(size=size, num_layers=num_layers)
        check_choice("activation", activation, tuple(ACTIVATIONS))
        check_probability(dropout=dropout, dropout_bottleneck=dropout_bottleneck)
        check_row_norm(max_row_norm)
        check_flags(batch_norm=batch_norm)
        check_dtype(dtype)
        if isinstance(transform_bias, bool) or not isinstance(transform_bias, Real):
            raise TypeError(f"transform_bias={transform_bias!r}: give a number")
        check_initialisation(init)
        self.size = size
        self.num_layers = num_layers
        self.matrix = Dense() if matrix is None else matrix
        self.activation = activation
        self.transform_bias = transform_bias
        self.batch_norm = batch_norm
        self.dropout = float(dropout)
        self.dropout_bottleneck = float(dropout_bottleneck)
        self.max_row_norm = max_row_norm
        self.init = init
        self.cells = nn.ModuleList(
            HighwayCell(
                size,
                matrix=self.matrix,
                activation=activation,
                batch_norm=batch_norm,
                dropout=dropout,
                dropout_bottleneck=dropout_bottleneck,
                device=device,
                dtype=dtype,
            )
            for _ in range(num_layers)
        )
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Reinitialise all parameters and reset batch norm."""
        if next(self.parameters()).is_meta:  # which has no numbers to draw
            return
        for layer in range(self.num_layers):
            self._at(layer).start(
                self.init, transform_bias=self.transform_bias, generator=generator
            )

    def forward(self, state: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        """The state after the last layer."""
        if not isinstance(state, Tensor):
            refuse_proxy(state)
            raise TypeError(f"the input is a {type(state).__name__}: give a tensor")
        if state.shape[-1:] != (self.size,):
            raise ValueError(
                f"the input has shape {tuple(state.shape)}: its last axis must be {self.size}"
            )
        like = next(self.parameters())
        mixed = state.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type)
        if mixed or state.device != like.device:
            raise ValueError(
                f"the input is {state.dtype} on {state.device} and the layer {like.dtype} on "
                f"{like.device}: convert one with .to(...)"
            )
        rows = state.reshape(-1, self.size)
        for cell in self.cells:
            rows = cell(rows)
        return rows.reshape(state.shape)

    def explain_backends(self, state: Float[Tensor, "... n"]) -> dict[str, str | None]:
        """The reason why each backend, fastest first, cannot run this state; None if it can.

        The first that can is used: CUDA kernels for batch norm and the gate, or plain PyTorch.
        """
        return highway_backends(state)

    def recurrent_matrix(self, gate: str, *, layer: int = 0) -> GateMatrix:
        """The matrix of a gate in a layer, a view of the parameters with `.dense()`."""
        if not -self.num_layers <= layer < self.num_layers:
            raise IndexError(f"layer={layer}: this module has layers 0 to {self.num_layers - 1}")
        return self._at(layer).state_matrix(gate)

    def _at(self, layer: int) -> HighwayCell:
        return cast(HighwayCell, self.cells[layer])

    __prepare_scriptable__ = refuse_script

    def extra_repr(self) -> str:
        return ", ".join((f"{self.size}", f"matrix={self.matrix!r}", *unusual(self, _USUAL)))
