"""Replaying a pass: what it allocated and launched, with other tensors of the same shapes.

On its way to the kernels a pass looks up, checks and lays out what is the same in every step of a
training loop, and for small states that takes longer than the kernels. A tape records a pass while
it runs. A pass that does anything but allocate memory and launch kernels has no tape, nor has one
with kernels over the whole chip, which take longer than the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from passnet.ops.cuda.compile import CompileError
from passnet.ops.cuda.launches import Numbered, recorded

_ROOM = (
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.new_empty.default,
)


class Tape:
    """The launches of a pass. Their arguments are numbered: nothing, tensors given, tensors made,
    whole numbers."""

    def __init__(
        self,
        made: Sequence[Tensor],
        numbers: Sequence[int],
        launches: Sequence[Numbered],
        results: Sequence[int],
    ) -> None:
        # The call that takes least to make room, by half a microsecond and more for each.
        self._made = [(tuple(t.shape), t.stride(), t.dtype, t.device) for t in made]
        self._numbers, self._results = list(numbers), list(results)
        self._start = type(launches[0][0].kernel).together(launches)

    def __call__(self, given: Sequence[Tensor]) -> list[Tensor]:
        """What the pass returned, of these tensors."""
        made = [
            torch.empty_strided(shape, stride, dtype=dtype, device=device)
            for shape, stride, dtype, device in self._made
        ]
        tensors = (*given, *made)
        self._start(tensors, self._numbers)
        return [tensors[place - 1] for place in self._results]


def record(
    given: Sequence[Tensor], work: Callable[[], list[Tensor]]
) -> tuple[list[Tensor], Tape | None]:
    """(what `work` returns, which reads no other tensors; its tape, if there can be one)."""
    with _Watch() as watch, recorded() as launches:
        results = work()
    tensors = [*given, *watch.made]
    places = {tensor.data_ptr(): number for number, tensor in enumerate(tensors, 1)}
    over_the_chip = any(launch.cooperative for launch in launches)
    if watch.something_else or over_the_chip or not launches or len(places) < len(tensors):
        return results, None
    numbers: list[int] = []

    def place(value: Tensor | int | None) -> int:
        if value is None:
            return 0
        if isinstance(value, Tensor):
            return places[value.data_ptr()]
        numbers.append(value)
        return len(tensors) + len(numbers)

    try:
        numbered = [(x._replace(arguments=[]), [*map(place, x.arguments)]) for x in launches]
        return results, Tape(watch.made, numbers, numbered, [*map(place, results)])
    except KeyError:  # something that was neither given nor made
        return results, None
    except CompileError:  # no room for a graph, say; the pass itself is done, and is done so again
        return results, None


class _Watch(TorchDispatchMode):
    """Keeps what is made, so that no two tensors have had one place, and notes all else."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Tensor] = []
        self.something_else = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func in _ROOM:
            self.made.append(found)
        elif func is not torch.ops.aten.detach.default:  # of what `torch.empty` made
            self.something_else = True
        return found
