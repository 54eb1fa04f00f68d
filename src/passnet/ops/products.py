"""The recurrent matrices of some gates, made ready for one scan: a step is few operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.ops.maps import GateMaps


class Products(ABC):
    """p_g(x) = W_g (x * mask_g) for g gates, and its transpose, added to what is already there."""

    diagonal: Tensor | None = None
    """`[g, B or 1, n]`: what every unit takes from itself, masks included, if kept apart."""

    @abstractmethod
    def add(self, into: Float[Tensor, "g B n"], state: Float[Tensor, "B n"]) -> None:
        """into_g += p_g(state)."""

    @abstractmethod
    def add_transpose(self, into: Float[Tensor, "B n"], grads: Float[Tensor, "g B n"]) -> None:
        """into += the transposes of all p_g, without their diagonals, applied to grads_g."""

    def add_diagonal(
        self, slope: Tensor | None, slopes: Float[Tensor, "k t B n"], *, first: int = 0
    ) -> Tensor | None:
        """slope + sum of diagonal_g * slopes_g over k gates; no slope stands for zero.

        So the diagonals cost a step backwards nothing: many steps take them in at once.
        """
        if self.diagonal is not None:
            for own, of_gate in zip(self.diagonal[first:], slopes, strict=False):
                slope = own * of_gate if slope is None else torch.addcmul(slope, own, of_gate)
        return slope


def prepare(maps: GateMaps, gates: slice, state: Float[Tensor, "B n"]) -> Products:
    """The products of those gates with states like `state`."""
    factors = dict(zip(maps.structure.factors, maps.select(gates), strict=True))
    if factors.keys() <= {"weight", "expand", "project", "diagonal"}:
        return _Chain(factors, maps.select_masks(gates), gates.stop - gates.start, state)
    return _AnyStructure(maps, gates)


@final
class _AnyStructure(Products):
    """By the structure's own functions."""

    def __init__(self, maps: GateMaps, gates: slice) -> None:
        self._maps, self._gates = maps, gates

    def add(self, into: Tensor, state: Tensor) -> None:
        into.add_(self._maps(state, self._gates))

    def add_transpose(self, into: Tensor, grads: Tensor) -> None:
        into.add_(self._maps.transpose(grads, self._gates))


@final
class _Chain(Products):
    """L (R x) + D x through buffers of its own; a dense matrix is an R without an L.

    Gates that read the same vector take their summaries R x in one product: all of them, unless
    each has its own mask. Products run in the factors' dtype, sums in the state's.
    """

    def __init__(
        self, factors: Mapping[str, Tensor], masks: Tensor | None, gates: int, state: Tensor
    ) -> None:
        left = factors.get("expand")
        right = factors["weight"] if left is None else factors["project"]
        rank, (batch, units) = right.shape[1], state.shape
        masks = None if masks is None else masks.to(state.dtype)
        if "diagonal" in factors:
            diagonal = factors["diagonal"].unsqueeze(1).to(state.dtype)
            self.diagonal = diagonal if masks is None else diagonal * masks
        if masks is None or masks.shape[0] == 1:
            self._multiply, right = torch.mm, right.reshape(-1, units)
            self._masks = None if masks is None else masks[0]
            self._summary = right.new_empty(batch, right.shape[0])
            each = self._summary.unflatten(1, (-1, rank)).transpose(0, 1)
        else:
            self._multiply, right = torch.bmm, right.expand(gates, -1, -1)
            self._masks = masks
            self._summary = each = right.new_empty(gates, batch, rank)
        self._one_dtype = right.dtype == state.dtype
        self._left, self._left_transposed = left, None if left is None else left.mT
        self._right, self._right_transposed = right, right.mT
        # The summary as every gate sees it, [g, B, d]: gates that share R share it.
        self._each, self._shared = each.expand(gates, -1, -1), each.shape[0] < gates
        direct = self._each.is_contiguous()
        self._back = self._each if direct else right.new_empty(gates, batch, rank)

    def add(self, into: Tensor, state: Tensor) -> None:
        x = state if self._masks is None else state * self._masks
        x = x if self._one_dtype else x.to(self._right.dtype)
        self._multiply(x, self._right_transposed, out=self._summary)
        if self._left_transposed is None:
            into.add_(self._each)
        elif self._one_dtype:
            into.baddbmm_(self._each, self._left_transposed)
        else:
            into.add_(torch.bmm(self._each, self._left_transposed))
        if self.diagonal is not None:
            into.addcmul_(state, self.diagonal)

    def add_transpose(self, into: Tensor, grads: Tensor) -> None:
        back = grads if self._one_dtype else grads.to(self._right.dtype)
        if self._left is not None:
            back = torch.bmm(back, self._left, out=self._back)
        if self._shared:
            torch.sum(back, 0, out=self._summary)
        elif back is not self._each:
            self._each.copy_(back)
        if self._masks is None and self._one_dtype:
            into.addmm_(self._summary, self._right)
            return
        back = self._multiply(self._summary, self._right)
        back = back if self._masks is None else back * self._masks
        into.add_(back if back.dim() == 2 else back.sum(0))
