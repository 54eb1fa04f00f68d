"""An exponential moving average of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor


@final
class Average:
    """The exponentially weighted mean of all parameters seen so far.

    The newest weighs (1 - decay) / (1 - decay^k) when it is the k-th, so the weights sum to one
    and where the average began leaves no trace.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.count = 0
        self.tensors: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self, parameters: Mapping[str, Tensor]) -> None:
        """Take in the parameters after an update."""
        self.count += 1
        if not self.tensors:
            self.tensors = {name: value.detach().clone() for name, value in parameters.items()}
            return
        weight = (1 - self.decay) / (1 - self.decay**self.count)
        torch._foreach_lerp_(
            list(self.tensors.values()),
            [parameters[name].detach() for name in self.tensors],
            weight,
        )

    @torch.no_grad()
    def restart(self, parameters: Mapping[str, Tensor]) -> None:
        """Forget everything and begin with these parameters."""
        self.count, self.tensors = 0, {}
        self.add(parameters)
