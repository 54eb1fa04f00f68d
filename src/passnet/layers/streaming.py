"""One time step of a whole layer: what it accepts, and the short way without autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from passnet.layers.sequences import SYMBOL_TYPES
from passnet.ops.cell_tensors import CellTensors
from passnet.ops.stream import CellStep, prepare
from passnet.ops.transforms import watched

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer, States

_prepared: WeakKeyDictionary[nn.Module, tuple[list, CellStep | None]] = WeakKeyDictionary()


def check_step(layer: RecurrentLayer) -> None:
    """Raise a sentence if a layer takes no single steps."""
    if layer.bidirectional:
        raise RuntimeError(
            "step() needs one direction: a bidirectional layer reads the sequence's end first"
        )
    if layer.training and (layer.dropouts.any() or layer.dropout):
        raise RuntimeError(
            "step() draws no dropout: call .eval() first (a mask fixed over time cannot be "
            "kept from one call to the next)"
        )


def time_axis(input: object, *, batch_first: bool) -> int:
    """Where a step's input lacks the axis of time; raises a sentence for anything but one step."""
    if not isinstance(input, Tensor):
        raise TypeError(f"the input of a step is a {type(input).__name__}: give a tensor")
    features = input.is_floating_point()
    axes = input.dim() - features
    if axes not in (0, 1):
        raise ValueError(
            f"the input of a step has shape {tuple(input.shape)}: expected "
            + ("[B, m] or [m] features" if features else "[B] or [] symbols")
        )
    return 1 if axes == 1 and batch_first else 0


def short_step(layer: RecurrentLayer, x: Tensor, state: Any):
    """What `layer.step` returns for these, or None if the step has to run in full.

    It serves features and symbols outside autograd, autocast, hooks and every tracer: a few
    sequences on the CPU, any number on a GPU. There are few functions on this way: in a stream the
    weights push Python's own data out of the caches, and a call takes several times what it does
    elsewhere.
    """
    if (
        watched()
        or layer.bidirectional
        or (layer.training and (layer.dropout or layer.dropouts.any()))
        or layer.dropouts.zoneout
        or layer._forward_hooks
        or layer._forward_pre_hooks
        or _has_any_global_hook()
        or type(x) is not Tensor
        or x.is_neg()
    ):
        return None
    if x.dim() != (2 if x.is_floating_point() else 1):
        return _without_batch(layer, x, state)
    # By name: a module takes longer to find its parts by attribute.
    cells: dict[str, Any] = layer._modules["cells"]._modules  # pyright: ignore
    names, batch, units = layer.state_names, x.shape[0], layer.hidden_size
    parts, shape = (state,) if len(names) == 1 else state, (len(cells), batch, units)
    if type(parts) is not tuple or len(parts) != len(names):
        return None
    for part in parts:
        if type(part) is not Tensor or part.is_neg() or part.shape != shape:
            return None
    if len(cells) > 1:
        return _stacked(layer, x, parts)
    # The state of a single layer is all there is: nothing to take apart and to stack again. It is
    # the output too: a copy keeps what is done to one from the other.
    output = parts[0].new_empty(batch, units)
    following = _run(layer, cells["0"], x, parts, output)
    return None if following is None else (output, layer._join(following))


def _stacked(layer: RecurrentLayer, x: Tensor, state: States):
    """The short step of several layers."""
    steps = []
    for cell, *parts in zip(layer.cells, *state, strict=True):
        following = _run(layer, cell, x, parts)
        if following is None:
            return None
        steps.append(following)
        x = following[0]
    return x, layer._join([torch.stack(part) for part in zip(*steps, strict=True)])


def _without_batch(layer: RecurrentLayer, x: Tensor, state: Any):
    """The short step of one sequence that has no batch axis."""
    parts = state if type(state) is tuple else (state,)
    flat = all([type(part) is Tensor and part.dim() == 2 for part in parts])
    if not flat or x.dim() != (1 if x.is_floating_point() else 0):
        return None
    batched = tuple([part.unsqueeze(1) for part in parts])
    found = short_step(layer, x.unsqueeze(0), batched if parts is state else batched[0])
    if found is None:
        return None
    output, following = found
    parts = [part.squeeze(1) for part in layer._split(following)]
    return output.squeeze(0), layer._join(parts)


def _run(
    layer: RecurrentLayer,
    cell: nn.Module,
    x: Tensor,
    state: Sequence[Tensor],
    output: Tensor | None = None,
) -> Sequence[Tensor] | None:
    """A cell's next state, or None where it has no short step for this input."""
    step, _held = _step_of(cell)
    if step is None or layer.backend not in ("auto", step.backend):
        return None
    if step.units != layer.hidden_size:
        return None
    device, dtype = step.device, step.dtype
    if x.device != device or not 0 < x.shape[0] <= step.most:
        return None
    for part in state:
        if part.dtype != dtype or part.device != device:
            return None
    if x.dtype == dtype:
        if x.shape[1] != step.width:
            return None
    elif x.dtype in SYMBOL_TYPES:
        x = x.long()
        # Those on a GPU are taken at their word: a look at them would wait for it.
        if not (x.is_cuda or all([0 <= symbol < step.width for symbol in x.tolist()])):
            return None
    else:
        return None
    return step(x.contiguous(), [part.contiguous() for part in state], output)


def _step_of(cell) -> tuple[CellStep | None, list[Tensor]]:
    """The cell's prepared step, prepared again when a parameter has moved, and all parameters, to
    be held while the step runs: another thread may replace them meanwhile."""
    own, matrix = cell._parameters, cell._modules["recurrent"]
    stored = matrix._parameters
    # Looked up as it lies: an LSTM has none, which a module finds out slowly.
    kind = cell.__dict__.get("reset"), cell.weight_norm, matrix.weight_norm, matrix.structure
    seen = [*kind, *own, *stored]
    tensors = [tensor for tensor in (*own.values(), *stored.values()) if tensor is not None]
    seen += map(Tensor.data_ptr, tensors)
    seen += [tensor.shape for tensor in tensors]
    seen += map(Tensor.is_contiguous, tensors)
    seen += map(Tensor.is_neg, tensors)
    found = _prepared.get(cell)
    if found is None or found[0] != seen:
        found = seen, _prepare(cell, own, matrix)
        _prepared[cell] = found
    return found[1], tensors


def _prepare(cell, own, matrix) -> CellStep | None:
    stored, names = matrix._parameters, matrix.structure.factors
    reset = getattr(cell, "reset", None)
    needed = {"input_weight", "bias"} | (set() if reset is None else {"inner_bias"})
    # What is parametrised, pruned or something else than a parameter is not stored here, and
    # under weight normalisation nothing is used as it is stored.
    whole = needed <= own.keys() and set(names) <= stored.keys()
    if not whole or cell.weight_norm or matrix.weight_norm:
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
