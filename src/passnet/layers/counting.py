"""How many numbers a module trains."""

from __future__ import annotations

from torch import nn


def count_parameters(module: nn.Module, *, trainable_only: bool = False) -> int:
    """The number of parameters of `module`; a shared tensor counts once.

    A parametrised tensor counts as its original, which is what is trained. Complex numbers would
    count once, but passnet stores them as pairs of reals.
    """
    return sum(
        parameter.numel()
        for parameter in module.parameters()
        if parameter.requires_grad or not trainable_only
    )
