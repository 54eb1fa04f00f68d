"""Copies of modules, also of those with weights that are computed and not stored."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def copied(module: Module) -> Module:
    """A deep copy. PyTorch copies no tensor that is a result, such as a pruned weight: those are
    copied as they are now, and what computes them does so again when the copy is called."""
    memory = {
        id(value): value.detach().clone()
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    return copy.deepcopy(module, memory)
