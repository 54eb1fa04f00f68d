"""Repeated calls of a layer, as in a training loop: the short way to its scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from passnet.layers.stack import scan_call
from passnet.ops.backend import choose
from passnet.ops.direct import Again
from passnet.ops.kinds import Kinds
from passnet.ops.precision import autocast_on
from passnet.ops.transforms import captured, overridden, plain_only, unwrapped

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer

MOST_CALLS = 8
"""Kinds of calls that a layer remembers; most differ in the shape of their batch."""


class _Short(NamedTuple):
    """A call, and which of the input and the layer's parameters each of its tensors is."""

    call: Again
    live: Sequence[int]
    fixed: Sequence[int]


_Way = _Short | Literal["long"]
_memories: WeakKeyDictionary[nn.Module, Kinds[_Way]] = WeakKeyDictionary()


def again(
    layer: RecurrentLayer, x: object, hx: object, lengths: object
) -> tuple[Tensor, tuple[Tensor, ...]] | None:
    """(output, final states) of a replayed call, or None if the call has to run in full.

    That is so for the first call of a kind, under any transform, and for all calls except those of
    a single cell that reads features in its own precision, from zero, without random draws.
    """
    if type(x) is not Tensor or hx is not None or lengths is not None:
        return None
    if not _ordinary(x) or not _plain(layer):
        return None
    cell = layer._at(0)
    matrix = cell.matrix
    named = (*cell._parameters.items(), *matrix._parameters.items())
    stored = {name: tensor for name, tensor in named if tensor is not None}
    parameters = [*stored.values()]
    if any([type(tensor) is not nn.Parameter for tensor in parameters]):
        return None  # `functional_call` gives others, also where there was nothing
    kinds = [(tensor.shape, tensor.dtype, tensor.device) for tensor in (x, *parameters)]
    asked = (x.requires_grad, layer.batch_first, layer.backend, getattr(cell, "reset", None))
    read_as = (cell.weight_norm, matrix.weight_norm, matrix.structure.name)
    # Names: a hook that computes a weight stores what it computes it from under another.
    seen = (*asked, *read_as, *stored, *kinds)
    way = _memory(layer).of(seen, lambda: _way(layer, x, parameters))
    if way is None or way == "long":
        return None
    tensors = _read(layer, x, parameters)
    live = [unwrapped(tensors[place]) for place in way.live]
    output, *rest = way.call.run(live, [tensors[place] for place in way.fixed])
    finals = tuple(rest[len(layer.state_names) - 1 :])
    return output.transpose(0, 1) if layer.batch_first else output, finals


def _ordinary(x: Tensor) -> bool:
    """Whether these are features of several sequences, and nothing but autograd is around."""
    return not (
        plain_only()
        or overridden()
        or autocast_on(x.device.type)
        or captured(x)
        or x.is_nested
        or x.dim() != 3
    )


def _plain(layer: RecurrentLayer) -> bool:
    """Whether a call of this layer is one scan from zero with nothing drawn."""
    drawn = layer.dropouts.zoneout or (layer.training and layer.dropouts.any())
    several = layer.num_layers > 1 or layer.directions > 1
    return not (drawn or several or layer.learn_initial_state)


def _memory(layer: RecurrentLayer) -> Kinds[_Way]:
    """What is known of a layer's calls."""
    memory = _memories.get(layer)
    if memory is None:
        memory = _memories[layer] = Kinds(MOST_CALLS)
    return memory


def _read(layer: RecurrentLayer, x: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """All tensors that a call reads, time first."""
    return x.transpose(0, 1).contiguous() if layer.batch_first else x, *parameters


def _way(layer: RecurrentLayer, x: Tensor, parameters: Sequence[Tensor]) -> _Way:
    """The short way, if there is one and a call reads its tensors as they are stored."""
    layer._read(x, None, None)  # which raises where a full call does
    tensors, start = _read(layer, x, parameters), (None,) * len(layer.state_names)
    with torch.no_grad():  # who counts what a call saves, as for a checkpoint, must not see it
        call = scan_call(layer, layer._at(0), tensors[0], None, x.dtype, start, None, False)
    asked = choose(layer._backends(), layer.backend, call).again(call)
    live, fixed, _ = call.flatten()
    places = {id(tensor): place for place, tensor in enumerate(tensors)}
    if asked is None or not {id(tensor) for tensor in (*live, *fixed)} <= places.keys():
        return "long"
    if len(places) < len(tensors):  # one parameter in two places, each of which may get its own
        return "long"
    return _Short(asked, [places[id(t)] for t in live], [places[id(t)] for t in fixed])
