"""What `torch.jit.script` and `torch.fx` are told when they meet a layer."""

from __future__ import annotations

from typing import NoReturn

from torch import fx, nn


def refuse_script(module: nn.Module) -> NoReturn:
    """Raise a sentence: the compiler's own would be about one line inside the layer."""
    raise TypeError(
        f"torch.jit.script cannot compile a passnet.{type(module).__name__}: use torch.compile, "
        "torch.export or torch.jit.trace"
    )


def refuse_proxy(input: object) -> None:
    """Raise a sentence for what `torch.fx.symbolic_trace` gives a layer in place of a tensor."""
    if isinstance(input, fx.Proxy):
        raise TypeError(
            "torch.fx cannot trace into a passnet layer: name it a leaf (Tracer.is_leaf_module), "
            "or use torch.export"
        )
