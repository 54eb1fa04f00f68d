"""Whether ONNX Runtime gives for a program what PyTorch gives for the module it was made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from passnet.export.errors import Disagreement, Unexportable
from passnet.export.signature import Signature

QUIET = 3
"""ONNX Runtime's level for errors alone."""


@torch.no_grad()
def check_agreement(
    program: bytes, signature: Signature, module: nn.Module, given: tuple[Any, ...]
) -> None:
    """Raise a Disagreement for numbers that differ in more than their last half of digits.

    Both run on what was given, and on more steps and sequences where these are free.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = QUIET
    try:
        session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of its own kinds
        raise Unexportable(f"ONNX Runtime cannot run what PyTorch wrote ({error})") from error
    leaves, tree = pytree.tree_flatten(given)
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    free = [size for shape in signature.inputs.values() for size in shape if isinstance(size, str)]
    # By one more, two more and so on, so that sizes which were equal are not.
    larger = {size: 1 + index for index, size in enumerate(dict.fromkeys(free))}
    for more in ({}, larger):
        read = list(leaves)
        for index, shape in zip(places, signature.inputs.values(), strict=True):
            read[index] = _longer(leaves[index], [more.get(str(size), 0) for size in shape])
        fed = {name: read[i].numpy() for name, i in zip(signature.inputs, places, strict=True)}
        wanted, _ = pytree.tree_flatten(module(*pytree.tree_unflatten(read, tree)))
        found = session.run(None, fed)
        for name, a, b in zip(signature.outputs, found, wanted, strict=True):
            _compare(name, a, b.numpy(), {name: array.shape for name, array in fed.items()})


def _longer(tensor: Tensor, more: list[int]) -> Tensor:
    """A tensor that begins again at its end, with so much more along every axis."""
    for axis, further in enumerate(more):
        count = tensor.shape[axis]
        tensor = tensor.index_select(axis, torch.arange(count + further) % count)
    return tensor


def _compare(name: str, found: Any, wanted: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise Disagreement(
            f"{name} is {found.dtype} {list(found.shape)} in ONNX and {wanted.dtype} "
            f"{list(wanted.shape)} in PyTorch, for inputs of {shapes}: nothing was written"
        )
    exact = not np.issubdtype(found.dtype, np.floating)
    allowed = 0.0 if exact else float(np.finfo(found.dtype).eps) ** 0.5
    found, wanted = found.astype(float), wanted.astype(float)
    # Scores that are masked are infinite, and may be so in both.
    differ = ~((found == wanted) | (np.isnan(found) & np.isnan(wanted)))
    off = np.linalg.norm(found[differ] - wanted[differ])
    scale = np.linalg.norm(wanted[np.isfinite(wanted)])
    if not off <= allowed * scale:
        raise Disagreement(
            f"{name} differs from PyTorch's by {off / max(scale, 1e-300):.1e} of its size, for "
            f"inputs of {shapes}: nothing was written"
        )
