"""One time step of a whole layer without autograd: the short way for streaming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from passnet.ops.cpu.stream import FEW, CellStep, prepare

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer

_prepared: WeakKeyDictionary[nn.Module, tuple[tuple[int, ...], CellStep | None]] = (
    WeakKeyDictionary()
)


def short_step(
    layer: RecurrentLayer, x: Tensor, state: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]] | None:
    """(output [B, n], next state [L, B, n] each), or None where only the long way will do.

    It serves real inputs outside autograd, autocast, hooks and every tracer: a few sequences on the
    CPU, any number on a GPU.
    """
    if (
        torch.is_grad_enabled()
        or type(x) is not Tensor
        or x.dim() != 2
        or layer.dropouts.zoneout
        or layer._forward_hooks
        or layer._forward_pre_hooks
        or nn.modules.module._has_any_global_hook()
        or torch.is_autocast_enabled(x.device.type)
        or torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
    ):
        return None
    shape = (len(layer.cells._modules), x.shape[0], layer.hidden_size)
    for part in state:
        if type(part) is not Tensor or part.shape != shape or part.dtype != x.dtype:
            return None
    if x.device.type == "cpu":
        return _prepared_step(layer, x, state)
    return _scan_once(layer, x, state) if x.device.type == "cuda" else None


def _scan_once(
    layer: RecurrentLayer, x: Tensor, state: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]] | None:
    """The layer's own scans over one step, without what a sequence may need besides."""
    weight = layer._first.input_weight
    same = weight.device == x.device == state[0].device and weight.dtype == x.dtype
    if not same or x.shape[1] != layer.input_size or not len(x):
        return None
    following = []
    for index in range(len(layer.cells)):
        cell, start = layer._at(index), tuple([part[index] for part in state])
        source = cell.inputs(x.unsqueeze(0), x.dtype)
        call = cell.scan(source, start, masks=None, holds=(None,) * len(start))
        following.append(layer._scan(call))
        x = following[-1][0][0]
    if len(following) == 1:
        # The only state is the output too: a copy keeps what is done to one from the other.
        return x.clone(), list(following[0])
    return x, [torch.cat(part) for part in zip(*following, strict=True)]


def _prepared_step(
    layer: RecurrentLayer, x: Tensor, state: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]] | None:
    """Each cell's step in the compiled library, which reads the parameters where they lie."""
    if layer.backend not in ("auto", "cpu") or not 0 < x.shape[0] <= FEW:
        return None
    cells = layer.cells._modules.values()
    following = []
    for index, cell in enumerate(cells):
        run = _step_of(cell)
        if run is None or x.shape[1] != run.width or x.dtype != run.dtype:
            return None
        if len(cells) == 1:
            # Its state is all there is: nothing to take apart and to stack again.
            here = run(x.contiguous(), [part.contiguous() for part in state])
            return here[0][0].clone(), list(here)
        here = run(x.contiguous(), [part[index].contiguous() for part in state])
        following.append(here)
        x = here[0]
    return x, [torch.stack(part) for part in zip(*following, strict=True)]


def _step_of(cell) -> CellStep | None:
    """The cell's prepared step; prepared again when a parameter has moved."""
    own, matrix = cell._parameters, cell._modules["recurrent"]
    places = tuple(
        [t.data_ptr() for t in own.values() if t is not None]
        + [t.data_ptr() for t in matrix._parameters.values() if t is not None]
    )
    found = _prepared.get(cell)
    if found is None or found[0] != places:
        found = places, _prepare(cell, own, matrix)
        _prepared[cell] = found
    return found[1]


def _prepare(cell, own, matrix) -> CellStep | None:
    stored = matrix._parameters
    factors = [stored.get(name) for name in matrix.structure.factors]
    # Under parametrisation and weight normalisation nothing is used as it is stored.
    if matrix.weight_norm or is_parametrized(cell) or is_parametrized(matrix):
        return None
    reset = getattr(cell, "reset", None)
    return prepare(
        "lstm" if reset is None else f"gru_{reset}",
        matrix.structure.name,
        factors,
        input_weight=own["input_weight"],
        bias=own.get("bias"),
        inner_bias=own.get("inner_bias"),
    )
