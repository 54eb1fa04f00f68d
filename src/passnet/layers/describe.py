"""A recurrent layer in one line: its sizes, and what is not as usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer

USUAL = {
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


def describe(layer: RecurrentLayer) -> str:
    """The layer's arguments as a user would write them, those left out that are as usual."""
    words = [f"{layer.input_size}, {layer.hidden_size}", f"matrix={layer.matrix!r}"]
    for name, usual in USUAL.items():
        value = getattr(layer, name, usual)
        if value != usual:
            words.append(f"{name}={value!r}")
    bias = layer.carry_bias
    if bias is not None:
        vector = isinstance(bias, Tensor) and bias.dim() > 0
        words.append(f"carry_bias={'a vector' if vector else bias}")
    return ", ".join((*words, *layer.dropouts.words()))
