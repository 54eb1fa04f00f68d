"""A layer in double precision with the same numbers, and random numbers for its parameters."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


@torch.no_grad()
def randomised(module: nn.Module, bound: float = 0.5) -> nn.Module:
    """Every parameter drawn anew: no bias, scale or initial state is left at a special value."""
    for parameter in module.parameters():
        parameter.copy_(bound * signed(*parameter.shape))
    return module


def signed(*shape: int) -> Tensor:
    """Uniform between -1 and 1: no rare large number that a root mean square would consist of."""
    return 2 * torch.rand(*shape) - 1


def doubled(module: nn.Module) -> nn.Module:
    """The same module in double precision."""
    return copy.deepcopy(module).double()


def gate_numbers(stacked: Tensor, names) -> dict:
    """[gates, ...] as the oracle's dict of arrays."""
    return {name: part.detach().double().numpy() for name, part in zip(names, stacked, strict=True)}
