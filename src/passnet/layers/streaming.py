"""One time step of a whole layer: what it takes, and the short way without autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from passnet.layers.sequences import SYMBOL_TYPES
from passnet.ops.cell_tensors import CellTensors
from passnet.ops.precision import autocast_on
from passnet.ops.stream import CellStep, prepare
from passnet.ops.transforms import overridden, transformed

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer

_prepared: WeakKeyDictionary[nn.Module, tuple[list, CellStep | None]] = WeakKeyDictionary()


def check_step(layer: RecurrentLayer, input: object) -> None:
    """Raise a sentence where a layer takes no single steps, or not this one."""
    if layer.bidirectional:
        raise RuntimeError(
            "step() needs one direction: a bidirectional layer reads the sequence's end first"
        )
    if layer.training and (layer.dropouts.any() or layer.dropout):
        raise RuntimeError(
            "step() draws no dropout: call .eval() first (a mask fixed over time cannot be "
            "kept from one call to the next)"
        )
    check_tensor(input)


def check_tensor(input: object) -> None:
    """Raise a sentence for an input of a step that is none."""
    if not isinstance(input, Tensor):
        raise TypeError(f"the input of a step is a {type(input).__name__}: give a tensor")


def check_step_shape(input: Tensor) -> None:
    """Raise a sentence for an input that is not one step of some sequences, or of one."""
    features = input.is_floating_point()
    if input.dim() not in ((1, 2) if features else (0, 1)):
        raise ValueError(
            f"the input of a step has shape {tuple(input.shape)}: expected "
            + ("[B, m] or [m] features" if features else "[B] or [] symbols")
        )


def short_step(
    layer: RecurrentLayer, x: Tensor, state: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]] | None:
    """(output [B, n], next state [L, B, n] each), or None where only the long way will do.

    It serves features and symbols outside autograd, autocast, hooks and every tracer: a few
    sequences on the CPU, any number on a GPU. What is given without a batch comes back without.
    """
    if (
        torch.is_grad_enabled()
        or torch.compiler.is_compiling()
        or transformed()
        or overridden()
        or any([type(given) is not Tensor or given.is_neg() for given in (x, *state)])
        or layer.dropouts.zoneout
        or layer._forward_hooks
        or layer._forward_pre_hooks
        or nn.modules.module._has_any_global_hook()
        or autocast_on(x.device.type)
    ):
        return None
    axes = 2 if x.is_floating_point() else 1
    if x.dim() == axes - 1 and all([part.dim() == 2 for part in state]):
        found = _short_step(layer, x.unsqueeze(0), [part.unsqueeze(1) for part in state])
        return found and (found[0].squeeze(0), [part.squeeze(1) for part in found[1]])
    return _short_step(layer, x, state) if x.dim() == axes else None


def _short_step(
    layer: RecurrentLayer, x: Tensor, state: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]] | None:
    # By name: a module takes longer to find its parts by attribute.
    cells = layer._modules["cells"]._modules.values()  # pyright: ignore
    shape, dtype = (len(cells), x.shape[0], layer.hidden_size), state[0].dtype
    for part in state:
        alike = part.dtype == dtype and part.device == x.device
        if part.shape != shape or not alike:
            return None
    # The state of a single layer is all there is: nothing to take apart and to stack again.
    one = len(cells) == 1
    parts = [(part,) if one else part.unbind() for part in state]
    following = []
    for index, cell in enumerate(cells):
        run = _step_of(cell)
        if run is None or dtype != run.dtype or not _takes(run, layer, x):
            return None
        if not x.is_floating_point():
            x = x.long()
            # Those on a GPU are taken at their word: a look at them would wait for it.
            if not (x.is_cuda or all([0 <= symbol < run.width for symbol in x.tolist()])):
                return None
        following.append(run(x.contiguous(), [part[index].contiguous() for part in parts]))
        x = following[-1][0]
    if one:
        # The only state is the output too: a copy keeps what is done to one from the other.
        return x[0].clone(), list(following[0])
    return x, [torch.stack(part) for part in zip(*following, strict=True)]


def _takes(run: CellStep, layer: RecurrentLayer, x: Tensor) -> bool:
    return (
        layer.backend in ("auto", run.backend)
        and 0 < x.shape[0] <= run.most
        and x.device == run.device
        and (x.dtype in SYMBOL_TYPES or (x.dtype == run.dtype and x.shape[1] == run.width))
    )


def _step_of(cell) -> CellStep | None:
    """The cell's prepared step; prepared again when a parameter has moved."""
    own, matrix = cell._parameters, cell._modules["recurrent"]
    stored = matrix._parameters
    seen = [getattr(cell, "reset", None), matrix.weight_norm, matrix.structure, *own, *stored]
    for tensor in (*own.values(), *stored.values()):
        if tensor is not None:
            seen += (tensor.data_ptr(), tensor.shape, tensor.is_contiguous())
    found = _prepared.get(cell)
    if found is None or found[0] != seen:
        found = seen, _prepare(cell, own, matrix)
        _prepared[cell] = found
    return found[1]


def _prepare(cell, own, matrix) -> CellStep | None:
    stored, names = matrix._parameters, matrix.structure.factors
    reset = getattr(cell, "reset", None)
    needed = {"input_weight", "bias"} | (set() if reset is None else {"inner_bias"})
    # What is parametrised, pruned or something else than a parameter is not stored here, and
    # under weight normalisation nothing is used as it is stored.
    whole = needed <= own.keys() and set(names) <= stored.keys()
    if not whole or matrix.weight_norm:
        return None
    tensors = CellTensors(
        kind="lstm" if reset is None else f"gru_{reset}",
        structure=matrix.structure.name,
        factors=[stored[name] for name in names],
        input_weight=own["input_weight"],
        bias=own["bias"],
        inner_bias=own.get("inner_bias"),
    )
    return prepare(tensors)
