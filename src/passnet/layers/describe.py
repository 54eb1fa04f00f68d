"""A layer in one line: its sizes, and what is not as usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer

_USUAL = {
    "num_layers": 1,
    "bias": True,
    "batch_first": False,
    "dropout": 0.0,
    "bidirectional": False,
    "reset": "after",
    "learn_initial_state": False,
    "weight_norm": False,
    "max_row_norm": None,
    "init": "glorot",
    "backend": "auto",
}


def describe(layer: RecurrentLayer, **others: object) -> str:
    """A recurrent layer's arguments as a user would write them, those left out that are as usual.

    `others` are further ones with what is usual for them.
    """
    words = [f"{layer.input_size}, {layer.hidden_size}", f"matrix={layer.matrix!r}"]
    words += unusual(layer, _USUAL | others)
    bias = layer.carry_bias
    if bias is not None:
        vector = isinstance(bias, Tensor) and bias.dim() > 0
        words.append(f"carry_bias={'a vector' if vector else bias}")
    return ", ".join((*words, *layer.dropouts.words()))


def unusual(layer: nn.Module, usual: Mapping[str, object]) -> list[str]:
    """Those of a layer's arguments that are something else than usual."""
    given = {name: getattr(layer, name, value) for name, value in usual.items()}
    return [f"{name}={value!r}" for name, value in given.items() if value != usual[name]]
