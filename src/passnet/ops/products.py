"""The recurrent matrices of some gates, made ready for one scan: a step is few operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations import Structure
from passnet.equations.rows import row_products
from passnet.ops.maps import GateMaps
from passnet.ops.weights import OneProduct, plain_product


class Products(ABC):
    """p_g(x) = W_g (x * mask_g) for g gates, and its transpose, added to what is already there."""

    diagonal: Tensor | None = None
    """`[g, B or 1, n]`: what every unit takes from itself, masks included, if kept apart."""

    @abstractmethod
    def add(self, into: Float[Tensor, "g B n"], state: Float[Tensor, "B n"], t: int) -> None:
        """into_g += p_g(state), at step t."""

    @abstractmethod
    def add_transpose(
        self, into: Float[Tensor, "B n"], grads: Float[Tensor, "g B n"], t: int
    ) -> None:
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

    def summaries(self, gates: slice) -> tuple[Tensor, Tensor] | None:
        """R x `[g or 1, N, d]` and L^T grads `[g, N, d]` of all steps, where they were kept."""
        return None


def summaries_like(maps: GateMaps, *parts: slice, steps: int, batch: int) -> list[Tensor]:
    """Room for the summaries R x of every step by these ranges of gates, if they are low-rank."""
    if maps.structure.name not in ("low_rank", "low_rank_plus_diagonal"):
        return []
    found = []
    for gates in parts:
        project, masks = maps.select(gates)[1], maps.select_masks(gates)
        count = len(project) if masks is None or len(masks) == 1 else len(masks)
        found.append(project.new_empty(steps, batch, count, project.shape[1]))
    return found


def prepare(
    maps: GateMaps, gates: slice, state: Float[Tensor, "B n"], summaries: Tensor | None = None
) -> Products:
    """The products of those gates with states like `state`, in the room of `summaries_like`."""
    masks = maps.select_masks(gates)
    masks = None if masks is None else masks.to(state.dtype)
    if summaries is not None:
        return _LowRank(maps.select(gates), masks, state.dtype, summaries)
    if maps.structure.name == "dense":
        return _Dense(maps.select(gates)[0], masks)
    return _AnyStructure(maps, gates)


def one_product(*parts: tuple[Products, slice]) -> OneProduct:
    """What weight gradients ask for, these gates in this order, from the summaries if kept."""
    kept = [products.summaries(gates) for products, gates in parts]
    in_order = iter([pair for pair in kept if pair is not None])

    def by_summaries(
        structure: Structure, inputs: Tensor, grads: Tensor, factors: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        ahead, back = next(in_order)
        shared = factors[1].shape[0] == 1
        if shared and inputs.shape[0] == 1:
            back = back.sum(0, keepdim=True)
        right = row_products(back, inputs)
        right = right.sum(0, keepdim=True) if shared else right
        diagonal = [(grads * inputs).sum(1)] if len(factors) > 2 else []
        return row_products(grads, ahead), right, *diagonal

    return plain_product if None in kept else by_summaries


@final
class _AnyStructure(Products):
    """By the structure's own functions."""

    def __init__(self, maps: GateMaps, gates: slice) -> None:
        self._maps, self._gates = maps, gates

    def add(self, into: Tensor, state: Tensor, t: int) -> None:
        into.add_(self._maps(state, self._gates))

    def add_transpose(self, into: Tensor, grads: Tensor, t: int) -> None:
        into.add_(self._maps.transpose(grads, self._gates))


@final
class _Dense(Products):
    """W x, all gates at once."""

    def __init__(self, weight: Tensor, masks: Tensor | None) -> None:
        self._weight, self._transposed, self._masks = weight, weight.mT, masks

    def add(self, into: Tensor, state: Tensor, t: int) -> None:
        x = state if self._masks is None else state * self._masks
        _add_product(into, x.expand_as(into), self._transposed)

    def add_transpose(self, into: Tensor, grads: Tensor, t: int) -> None:
        if self._masks is None and into.dtype == self._weight.dtype:
            into.addbmm_(grads, self._weight)
            return
        back = torch.bmm(grads.to(self._weight.dtype), self._weight)
        into.add_((back if self._masks is None else back * self._masks).sum(0))


@final
class _LowRank(Products):
    """L (R x) + D x; keeps every step's summaries R x and, backwards, L^T y.

    Gates that read the same vector take their R x in one product: all of them, unless each has
    its own mask. Products run in the factors' dtype, sums in the state's.
    """

    def __init__(
        self,
        factors: Sequence[Tensor],
        masks: Tensor | None,
        dtype: torch.dtype,
        ahead: Float[Tensor, "T B k d"],
    ) -> None:
        self._left, right, *diagonal = factors
        if diagonal:
            own = diagonal[0].unsqueeze(1).to(dtype)
            self.diagonal = own if masks is None else own * masks
        self._ahead = ahead
        self._shared = right.shape[0] < self._left.shape[0]
        self._mask = masks[0] if masks is not None and len(masks) == 1 else None
        self._masks = masks if self._mask is None else None
        together = self._masks is None
        self._right = right.flatten(0, 1) if together else right.expand(len(self._left), -1, -1)
        self._left_transposed, self._right_transposed = self._left.mT, self._right.mT
        self._one_dtype = right.dtype == dtype

    @cached_property
    def _steps_ahead(self) -> list[tuple[Tensor, Tensor]]:
        """The summaries of a step side by side, `[B, k d]`, and for each gate, `[g, B, d]`."""
        each = self._ahead.transpose(1, 2).expand(-1, len(self._left), -1, -1)
        return list(zip(self._ahead.flatten(2).unbind(), each.unbind(), strict=True))

    @cached_property
    def _back(self) -> Float[Tensor, "T g B d"]:
        steps, batch, _, rank = self._ahead.shape
        return self._ahead.new_empty(steps, len(self._left), batch, rank)

    @cached_property
    def _steps_back(self) -> list[tuple[Tensor, Tensor | None]]:
        """The summaries of a step for each gate and, where one gate is all, side by side."""
        alone = self._back[:, 0].unbind() if len(self._left) == 1 else repeat(None)
        return list(zip(self._back.unbind(), alone, strict=False))

    @cached_property
    def _side_by_side(self) -> tuple[Tensor, Tensor]:
        """Room for one step: the same numbers as `[B, k d]` and as `[k, B, d]`."""
        _, batch, _, rank = self._ahead.shape
        room = self._ahead.new_empty(batch, self._right.shape[0])
        return room, room.unflatten(1, (-1, rank)).transpose(0, 1)

    def add(self, into: Tensor, state: Tensor, t: int) -> None:
        side_by_side, each = self._steps_ahead[t]
        if self._masks is not None:
            torch.bmm(self._narrow(state * self._masks), self._right_transposed, out=each)
        else:
            x = state if self._mask is None else state * self._mask
            torch.mm(self._narrow(x), self._right_transposed, out=side_by_side)
        _add_product(into, each, self._left_transposed)
        if self.diagonal is not None:
            into.addcmul_(state, self.diagonal)

    def add_transpose(self, into: Tensor, grads: Tensor, t: int) -> None:
        back, side_by_side = self._steps_back[t]
        torch.bmm(self._narrow(grads), self._left, out=back)
        if self._masks is not None:
            into.add_((torch.bmm(back, self._right) * self._masks).sum(0))
            return
        if side_by_side is None:
            side_by_side, each = self._side_by_side
            if self._shared:
                torch.sum(back, 0, out=side_by_side)
            else:
                each.copy_(back)
        if self._mask is None and self._one_dtype:
            into.addmm_(side_by_side, self._right)
        else:
            product = torch.mm(side_by_side, self._right)
            into.add_(product if self._mask is None else product * self._mask)

    def summaries(self, gates: slice) -> tuple[Tensor, Tensor]:
        ahead = self._ahead.flatten(0, 1).transpose(0, 1)
        back = self._back.transpose(0, 1)[gates].flatten(1, 2)
        return ahead if len(ahead) == 1 else ahead[gates], back

    def _narrow(self, x: Tensor) -> Tensor:
        return x if self._one_dtype else x.to(self._left.dtype)


def _add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    """into += left right, which is rounded first where it is of half precision."""
    if into.dtype == right.dtype:
        into.baddbmm_(left, right)
    else:
        into.add_(torch.bmm(left.to(right.dtype), right))
