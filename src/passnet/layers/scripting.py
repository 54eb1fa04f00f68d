"""What `torch.jit.script` is told when it meets a layer."""

from __future__ import annotations

from typing import NoReturn

from torch import nn


def refuse_script(module: nn.Module) -> NoReturn:
    """Raise a sentence: the compiler's own would be about one line inside the layer."""
    raise TypeError(
        f"torch.jit.script cannot compile a passnet.{type(module).__name__}: use torch.compile, "
        "torch.export or torch.jit.trace"
    )
