"""Time in chunks: enough steps at once for large operations, few enough to stay in cache."""

from __future__ import annotations

from collections.abc import Iterator

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
