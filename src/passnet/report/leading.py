"""The few contenders that readers of timings ask about; the others stand in the full tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from passnet.config.contender import OURS, ContenderName
from passnet.report.speed import THEIRS, SpeedFile, SpeedTable, Timing, speed_table

FASTEST = f"{THEIRS}'s fastest"
PROJECTED = "nn.LSTM(proj_size=d)"


class Look(NamedTuple):
    """The number of a series' colour, and the shape of its points."""

    colour: int
    shape: str


LOOKS = {
    OURS: Look(1, "circle"),
    THEIRS: Look(2, "square"),
    FASTEST: Look(5, "diamond"),
    PROJECTED: Look(3, "triangle-up"),
    "loop": Look(4, "cross"),
    "compiled loop": Look(7, "triangle-down"),
}
"""The contenders that are shown first, in this order, each of them called ordinarily in float32,
but for the fastest: that is the best of every precision and way of calling."""


@dataclass(frozen=True)
class Leading:
    """A series of a chart: for each shape the time that stands for it."""

    title: str
    timings: dict[tuple[str, ...], Timing]


def leading(timings: Sequence[Timing]) -> tuple[Leading, ...]:
    """What is there of `LOOKS`, of the timings of one pass."""
    theirs = [timing for timing in timings if timing.name.layer == THEIRS]
    found = {
        title: _by_shape(t for t in timings if t.name == ContenderName(title)) for title in LOOKS
    }
    if len({timing.name for timing in theirs}) > 1:
        found[FASTEST] = _by_shape(sorted(theirs, key=lambda t: t.milliseconds, reverse=True))
    return tuple(Leading(title, of) for title, of in found.items() if of)


def leading_table(file: SpeedFile) -> SpeedTable | None:
    """The main pass of a file with those contenders only; None where none was timed."""
    if not file.tables:
        return None
    main = file.tables[0]
    shapes = dict.fromkeys(timing.shape for timing in main.timings)
    by_title = {one.title: one.timings for one in leading(main.timings)}
    named = [
        (title, timings[shape])
        for shape in shapes
        for title, timings in by_title.items()
        if shape in timings
    ]
    return speed_table(main.kind, named) if named else None


def _by_shape(timings: Iterable[Timing]) -> dict[tuple[str, ...], Timing]:
    """The last timing of each shape."""
    return {timing.shape: timing for timing in timings}
