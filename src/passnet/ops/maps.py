"""The recurrent matrices of all gates as one callable over raw factors and dropout masks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from passnet.equations import STRUCTURES


class GateMaps:
    """p_g(x) = W_g (x * mask_g) for a range of gates, and its transpose.

    `masks` is None, `[1, B, n]` (one for all gates) or `[G, B, n]`. The products run in the
    factors' dtype and come back in the state's, so that a float32 state loses nothing to half
    precision on its carry path.
    """

    def __init__(self, structure: str, factors: Sequence[Tensor], masks: Tensor | None) -> None:
        self.structure = STRUCTURES[structure]
        self.factors = tuple(factors)
        self.masks = masks

    def inputs(self, state: Tensor, gates: slice) -> Tensor:
        """What enters the matrices of `gates`: `[g or 1, ..., B, n]`."""
        if self.masks is None:
            return state.unsqueeze(0)
        masks = _of(self.masks, gates)
        return state.unsqueeze(0) * masks.reshape(
            masks.shape[0], *([1] * (state.dim() - 2)), *masks.shape[1:]
        )

    def __call__(self, state: Tensor, gates: slice) -> Tensor:
        """`[g, ..., n]`: each gate's matrix applied to the state."""
        inputs = self.inputs(state, gates)
        rows = inputs.flatten(1, -2).to(self.factors[0].dtype)
        out = self.structure.apply(rows, *self.select(gates))
        return out.reshape(out.shape[0], *inputs.shape[1:]).to(state.dtype)

    def transpose(self, grads: Tensor, gates: slice) -> Tensor:
        """The gradient of the state, `[B, n]`, from that of every gate's product, `[g, B, n]`."""
        rows = grads.to(self.factors[0].dtype)
        factors = self.select(gates)
        if self.masks is None:
            return self.structure.transpose_sum(rows, *factors).to(grads.dtype)
        back = self.structure.transpose(rows, *factors).to(grads.dtype)
        return (back * _of(self.masks, gates)).sum(0)

    def select(self, gates: slice) -> list[Tensor]:
        """The factors of those gates; a factor shared by all gates stays whole."""
        return [_of(factor, gates) for factor in self.factors]

    def select_masks(self, gates: slice) -> Tensor | None:
        """The masks of those gates; one mask for all gates stays whole."""
        return None if self.masks is None else _of(self.masks, gates)


def _of(stacked: Tensor, gates: slice) -> Tensor:
    return stacked if stacked.shape[0] == 1 else stacked[gates]
