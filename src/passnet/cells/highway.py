"""One Highway layer with its parameters: structured matrices, batch norm and dropout between."""

from __future__ import annotations

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from passnet.cells.batch_norm import BatchNorm
from passnet.config.matrix import MatrixSpec
from passnet.equations import HIGHWAY_GATES
from passnet.matrices import GateMatrix, LowRankMatrix, build_matrix
from passnet.ops.highway_gate import highway_gate


@final
class HighwayCell(nn.Module):
    """Gates candidate and transform of equations 3 to 5.

    In order: dropout on what enters the matrices (the carry path is left alone); R; batch norm
    without scale or shift and dropout in the bottleneck; L, plus the diagonal; batch norm, whose
    shift is the gate's bias.
    """

    gate_names = HIGHWAY_GATES

    def __init__(
        self,
        size: int,
        *,
        matrix: MatrixSpec,
        activation: str,
        batch_norm: bool,
        dropout: float,
        dropout_bottleneck: float,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.size = size
        self.activation = activation
        self.dropout = dropout
        self.dropout_bottleneck = dropout_bottleneck
        self.recurrent = build_matrix(matrix, size, gates=len(self.gate_names), **place)
        rank = self.recurrent.spec.rank if isinstance(self.recurrent, LowRankMatrix) else None
        if dropout_bottleneck and rank is None:
            raise ValueError(
                f"dropout_bottleneck={dropout_bottleneck} needs a bottleneck: {matrix!r} has none; "
                "use LowRank or LowRankPlusDiagonal, or leave it at 0"
            )
        self.norm = BatchNorm(2, size, shift=False, **place) if batch_norm else None
        self.norm_bottleneck = (
            BatchNorm(2, rank, scale=False, shift=False, **place)
            if batch_norm and rank is not None
            else None
        )
        self.bias = nn.Parameter(torch.empty(2, size, **place))

    @torch.no_grad()
    def start(
        self, init: str, *, transform_bias: float, generator: torch.Generator | None = None
    ) -> None:
        """Draw starting values; the transform gate's bias starts at `transform_bias`."""
        keep = 1 - self.dropout_bottleneck
        self.recurrent.start(init, keep=keep, generator=generator)
        for norm in (self.norm, self.norm_bottleneck):
            if norm is not None:
                norm.reset_parameters()
        self.bias[0] = 0
        self.bias[1] = transform_bias

    def forward(self, state: Float[Tensor, "B n"]) -> Float[Tensor, "B n"]:
        entering = F.dropout(state, self.dropout, self.training)
        if isinstance(self.recurrent, LowRankMatrix):
            rows = entering.unsqueeze(0)
            z = self.recurrent.projected(rows).expand(2, -1, -1)
            if self.norm_bottleneck is not None:
                z = self.norm_bottleneck(z)
            # Masks are drawn in the order of memory: dense, they are the same whoever formed z.
            z = F.dropout(z.contiguous(), self.dropout_bottleneck, self.training)
            before = self.recurrent.expanded(z, rows)
        else:
            before = self.recurrent(entering)
        if self.norm is None:
            before = before + self.bias.unsqueeze(1)
        else:
            before = self.norm(before, shift=self.bias)
        return highway_gate(state, before, self.activation)

    def state_matrix(self, gate: str) -> GateMatrix:
        """The named gate's matrix."""
        if gate not in self.gate_names:
            raise ValueError(f"there is no gate {gate!r} here: choose 'candidate' or 'transform'")
        return self.recurrent.gate(self.gate_names.index(gate))
