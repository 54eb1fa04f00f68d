"""Variational dropout and zoneout: masks drawn once for a sequence, never on the carry path."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from passnet.layers.arguments import check_choice, check_probability
from passnet.ops.transforms import transformed


@dataclass(frozen=True)
class Dropouts:
    """Probabilities of dropping; masks are scaled by 1 / keep and fixed over time.

    `input_per` "feature" drops the same features (or symbols) at all steps of a sequence, "step"
    drops whole steps. Zoneout keeps a unit's old value with its probability at each step, and
    mixes old and new in that proportion when not training.
    """

    input_rate: float = 0.0
    input_per: str = "feature"
    state_rate: float = 0.0
    output_rate: float = 0.0
    zoneout: float = 0.0

    def __post_init__(self) -> None:
        check_probability(
            dropout_input=self.input_rate,
            dropout_state=self.state_rate,
            dropout_output=self.output_rate,
            zoneout=self.zoneout,
        )
        check_choice("dropout_input_per", self.input_per, ("feature", "step"))

    def words(self) -> list[str]:
        """What is not zero, as the layers' arguments are called."""
        rates = {
            "dropout_input": self.input_rate,
            "dropout_state": self.state_rate,
            "dropout_output": self.output_rate,
            "zoneout": self.zoneout,
        }
        words = [f"{name}={rate}" for name, rate in rates.items() if rate]
        if self.input_rate and self.input_per == "step":
            words.insert(1, "dropout_input_per='step'")
        return words

    def any(self) -> bool:
        """Whether anything is random while training."""
        return any((self.input_rate, self.state_rate, self.output_rate, self.zoneout))

    def input(
        self, x: Tensor, features: int, dtype: torch.dtype, *, training: bool
    ) -> tuple[Tensor, Tensor | None]:
        """(inputs, None) with a mask on real inputs; (symbols, what each one's share is) [T, B]."""
        if not training or not self.input_rate:
            return x, None
        steps, batch = x.shape[:2]
        per_step = self.input_per == "step"
        shape = (steps, batch, 1) if per_step else (1, batch, features)
        mask = _mask(torch.empty(shape, dtype=dtype, device=x.device), self.input_rate)
        if x.is_floating_point():
            return x * mask, None
        if per_step:
            return x, mask.squeeze(-1)
        return x, mask[0].gather(1, x.T).T.contiguous()

    def state_masks(
        self, shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """[gates, B, n] masks for the state that enters the recurrent matrices."""
        return _mask(torch.empty(shape, dtype=dtype, device=device), self.state_rate)

    def output(self, y: Tensor, *, training: bool) -> Tensor:
        """The outputs under one mask for each sequence."""
        if not training or not self.output_rate:
            return y
        return y * _mask(torch.empty_like(y[:1]), self.output_rate)

    def holds(
        self,
        shape: tuple[int, int, int],
        dtype: torch.dtype,
        device: torch.device,
        ended: Tensor | None,
        *,
        count: int,
        training: bool,
    ) -> tuple[Tensor | None, ...]:
        """For each state vector the fraction of its old value to keep: past the end, zoned out."""
        if not self.zoneout:
            return (None if ended is None else ended.to(dtype),) * count
        rate = torch.full((1, 1, 1), self.zoneout, dtype=dtype, device=device).expand(shape)
        holds = [torch.bernoulli(rate) for _ in range(count)] if training else [rate] * count
        return tuple(hold if ended is None else hold.masked_fill(ended, 1) for hold in holds)


def _mask(empty: Tensor, rate: float) -> Tensor:
    if transformed():  # vmap draws, for each example or for all, what is not drawn in place
        keep = torch.full(empty.shape, 1 - rate, dtype=empty.dtype, device=empty.device)
        return torch.bernoulli(keep) / (1 - rate)
    return empty.bernoulli_(1 - rate).div_(1 - rate)
