"""Time in chunks: enough steps at once for large operations, few enough to stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from jaxtyping import Float
from torch import Tensor

from passnet.ops.inputs import Inputs
from passnet.ops.scan import ScanCall

_ELEMENTS = {"cpu": 1 << 17}
_ELEMENTS_ELSEWHERE = 1 << 24


def chunks(steps: int, step_elements: int, device: str) -> Iterator[slice]:
    """Ranges of steps that cover `steps`, the last one first.

    Fresh temporaries larger than the cache cost more than the arithmetic on them, so on a CPU a
    chunk holds about 128k numbers; an accelerator takes far larger ones.
    """
    size = max(1, _ELEMENTS.get(device, _ELEMENTS_ELSEWHERE) // max(1, step_elements))
    for stop in range(steps, 0, -size):
        yield slice(max(0, stop - size), stop)


def drives(call: ScanCall) -> Callable[[slice], Tensor]:
    """What gives the drive `[G, t, B, n]` of t steps; from features it is formed for them alone."""
    source = call.source
    if isinstance(source, Inputs) and source.x.is_floating_point():
        return source.drive_in
    drive = call.drive
    return lambda steps: drive[:, steps]


def each_step(steps: slice, *tensors: Tensor | None) -> list[tuple[Any, ...]]:
    """(t, views of step t) for these steps, `[t, ...]` -> `[...]`, all at once; None stays None."""
    views = (repeat(None) if x is None else x.unbind() for x in tensors)
    return list(zip(range(steps.start, steps.stop), *views, strict=False))


def gradients_to_sum(
    from_outside: Float[Tensor, "t B n"], from_later: Float[Tensor, "B n"]
) -> Float[Tensor, "t+1 B n"]:
    """Gradients of the state before a chunk of steps and of the state after each of them.

    They hold what reaches each state from outside, and the last one what later steps sent back;
    the recursion adds the rest.
    """
    rows = from_later.new_empty((len(from_outside) + 1, *from_later.shape))
    rows[0] = 0
    rows[1:] = from_outside
    rows[-1] += from_later
    return rows
