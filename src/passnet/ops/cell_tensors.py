"""What one step of a stream is prepared from: a cell's tensors as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from passnet.ops.transforms import stand_in

GATES = {"gru_after": 3, "gru_before": 3, "lstm": 4}
"""Kinds of cells, and how many gates they have."""


@dataclass(frozen=True)
class CellTensors:
    """All that a cell of some kind computes with."""

    kind: str
    structure: str
    factors: Sequence[Tensor]
    input_weight: Tensor
    bias: Tensor | None
    inner_bias: Tensor | None

    def alike(self) -> bool:
        """Whether all are of one type, on one device, row after row, and there themselves, and
        their sizes those of one cell with dense or low-rank matrices."""
        first = self.input_weight
        given = [first, *self.factors, self.bias, self.inner_bias]
        return (
            stand_in(*given) is None
            and all(
                t.device == first.device
                and t.dtype == first.dtype
                and t.is_contiguous()
                and not t.is_neg()
                for t in given
                if t is not None
            )
            and self._fit()
        )

    def _fit(self) -> bool:
        gates, units, _ = self.input_weight.shape
        if gates != GATES[self.kind]:
            return False
        expand, *others = self.factors
        project, diagonal = (*others, None, None)[:2]
        rank = units if project is None else expand.shape[-1]
        tied = project is not None and len(project) == 1
        wanted = (
            (expand, (gates, units, rank)),
            (project, (1 if tied else gates, rank, units)),
            (diagonal, (gates, units)),
            (self.bias, (gates, units)),
            (self.inner_bias, (units,)),
        )
        return all(tensor is None or tensor.shape == shape for tensor, shape in wanted)
