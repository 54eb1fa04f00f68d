"""Horizontal lines in charts of curves, with words where they cover the least of the curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

# What the words take up, of a panel's width and height.
_WORDS_WIDE, _WORDS_HIGH = 0.45, 0.09


@dataclass(frozen=True)
class Mark:
    """A horizontal line at a value, and what it means."""

    value: float
    text: str


def mark_layers(
    alt: Any,
    mark: Mark,
    curves: Sequence[Sequence[tuple[float, float]]],
    scale: Any,
    *,
    percent: bool,
) -> list[Any]:
    """The line of a mark, and its words where the fewest curves pass."""
    times = 100 if percent else 1
    data = alt.Data(values=[{"v": times * mark.value, "t": mark.text}])
    rule = (
        alt.Chart(data)
        .mark_rule(strokeDash=[2, 3], strokeWidth=1.2)
        .encode(y="v:Q", color=alt.value("var(--quiet)"))
    )
    left, below = _free_corner(mark, curves, scale.to_dict(), times)
    place = {"align": "left" if left else "right", "dx": 4 if left else -4}
    place |= {"baseline": "top", "dy": 5} if below else {"baseline": "bottom", "dy": -4}
    # The ground's colour around the letters keeps them apart from curves that pass all the same.
    halo = {"stroke": "var(--ground)", "strokeWidth": 5, "strokeJoin": "round"}
    words = [
        alt.Chart(data)
        .mark_text(fontSize=11, **place, **around)
        .encode(
            y="v:Q",
            x=alt.value(0) if left else alt.value("width"),
            text="t:N",
            color=alt.value("var(--ink)"),
        )
        for around in (halo, {})
    ]
    return [rule, *words]


def _free_corner(
    mark: Mark,
    curves: Sequence[Sequence[tuple[float, float]]],
    scale: Mapping[str, Any],
    times: float,
) -> tuple[bool, bool]:
    """Whether a mark's words stand at its left end, and below it: where the fewest curves pass."""
    log = scale.get("type") == "log"
    raised = math.log10 if log else float
    if log:
        values = [raised(y) for points in curves for _, y in points] + [raised(mark.value)]
        low, high = math.floor(min(values)), math.ceil(max(values))
    else:
        low, high = (end / times for end in scale["domain"])
    end = max((x for points in curves for x, _ in points), default=0.0) or 1.0
    line = (raised(mark.value) - low) / (high - low)
    passing = [
        spot
        for points in curves
        for spot in _steps([(x / end, (raised(y) - low) / (high - low)) for x, y in points])
    ]

    def taken(corner: tuple[bool, bool]) -> float:
        left, below = corner
        bottom = line - _WORDS_HIGH if below else line
        if bottom < 0 or bottom + _WORDS_HIGH > 1:
            return math.inf
        return sum(
            bottom <= y <= bottom + _WORDS_HIGH
            and (x <= _WORDS_WIDE if left else x >= 1 - _WORDS_WIDE)
            for x, y in passing
        )

    return min(((left, below) for left in (False, True) for below in (False, True)), key=taken)


def _steps(points: Sequence[tuple[float, float]], count: int = 6) -> list[tuple[float, float]]:
    """The points and some between each two."""
    between = [
        (a[0] + (b[0] - a[0]) * k / count, a[1] + (b[1] - a[1]) * k / count)
        for a, b in pairwise(points)
        for k in range(count)
    ]
    return [*between, *points[-1:]]
