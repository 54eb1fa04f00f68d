"""Several curves as one plot of braille dots, for a terminal or a file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from passnet.report.columns import cut, wrapped
from passnet.report.curves import Curve, above_zero, spans_decades, thinned
from passnet.report.numbers import significant, whole

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_AXIS, _MARGIN = 10, 4
_HEIGHT, _POINTS = 16, 60
_BEYOND = 0.3
"""How far the vertical axis goes beyond the middle of the values, in units of its height."""


def text_plot(
    curves: Sequence[Curve],
    title: str,
    *,
    width: int = 78,
    percent: bool = False,
) -> str:
    """The curves with axes and a legend; letters to the right stand where series end.

    The vertical axis is logarithmic where the values span decades. It holds nine tenths of the
    values and as much around them as is not far away; curves run along its ends where they leave
    it. `percent` writes fractions as percentages.
    """
    log = spans_decades(y for curve in curves for _, y in curve.points)
    if log:
        curves = [replace(curve, points=above_zero(curve.points)) for curve in curves]
        curves = [curve for curve in curves if curve.points]
    raised: Callable[[float], float] = math.log10 if log else float
    across = width - _AXIS - _MARGIN
    xs = [x for curve in curves for x, _ in curve.points]
    low_x, high_x = _widened(min(xs), max(xs))
    values = [raised(y) for curve in curves for _, y in curve.points]
    low_y, high_y = _range(curves, raised)
    canvas = [[0] * across for _ in range(_HEIGHT)]

    def place(x: float, y: float) -> tuple[int, int]:
        column = round((x - low_x) / (high_x - low_x) * (2 * across - 1))
        inside = min(max(raised(y), low_y), high_y)
        row = round((high_y - inside) / (high_y - low_y) * (4 * _HEIGHT - 1))
        return column, row

    ends: dict[str, list[int]] = {}
    for curve in curves:
        dots = [place(x, y) for x, y in curve.points]
        for start, end in zip(dots, dots[1:] or dots, strict=False):
            _line(canvas, start, end)
        ends.setdefault(curve.series, []).append(dots[-1][1] // 4)
    letters = dict(zip(ends, LETTERS + "*" * len(ends), strict=False))
    marks = _marks({letters[series]: statistics.fmean(rows) for series, rows in ends.items()})
    rows = ["".join(chr(0x2800 + dots) if dots else " " for dots in line) for line in canvas]
    labels = _axis(low_y, high_y, shown=lambda v: (100 if percent else 1) * _raise(v, log))
    aside = _aside(values, low_y, high_y, log=log, percent=percent)
    lines = [wrapped(title + aside, width)]
    for number, row in enumerate(rows):
        label = labels.get(number, "")
        axis = f"{label:>{_AXIS - 2}} {'┤' if label else '│'}"
        lines.append(f"{axis}{row} {marks[number]}")
    lines.append(f"{'':{_AXIS - 2}} └{'─' * across}")
    left, right = whole(low_x), f"{whole(high_x)} updates"
    lines.append(" " * _AXIS + left + right.rjust(across - len(left)))
    for series, letter in letters.items():
        count = len(ends[series])
        seeds = f", {count} seeds" if count > 1 else ""
        lines.append(f"  {letter} {cut(series, width - 4 - len(seeds))}{seeds}")
    return "\n".join(line.rstrip() for line in lines)


def _range(curves: Sequence[Curve], raised: Callable[[float], float]) -> tuple[float, float]:
    """The ends of the vertical axis; each curve has the same say in it, however many its points."""
    values = sorted(raised(y) for c in curves for _, y in thinned(c.points, _POINTS))
    low, high = values[0], values[-1]
    if len(values) > 2:
        cuts = statistics.quantiles(values, n=20, method="inclusive")
        beyond = _BEYOND * (cuts[-1] - cuts[0])
        low, high = max(low, cuts[0] - beyond), min(high, cuts[-1] + beyond)
    return _widened(low, high)


def _aside(values: Sequence[float], low: float, high: float, *, log: bool, percent: bool) -> str:
    """What the title has to add: the unit, the axis, and what lies beyond it."""
    times = 100 if percent else 1
    words = [", %"] if percent else []
    words += [", logarithmic"] if log else []
    words += [f"; highest {significant(times * _raise(max(values), log))}"] * (max(values) > high)
    words += [f"; lowest {significant(times * _raise(min(values), log))}"] * (min(values) < low)
    return "".join(words)


def _raise(value: float, log: bool) -> float:
    return 10**value if log else value


def _widened(low: float, high: float) -> tuple[float, float]:
    if low < high:
        return low, high
    gap = abs(low) * 0.1 or 1.0
    return low - gap, high + gap


def _line(canvas: list[list[int]], start: tuple[int, int], end: tuple[int, int]) -> None:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        column = start[0] + round((end[0] - start[0]) * step / steps)
        row = start[1] + round((end[1] - start[1]) * step / steps)
        canvas[row // 4][column // 2] |= _DOTS[row % 4][column % 2]


def _marks(wanted: dict[str, float]) -> list[str]:
    """For each row the letter that stands there: in the order of their ends, each as near to its
    own as others allow. Where there are more letters than rows, several share one."""
    letters = sorted(wanted, key=lambda letter: wanted[letter])
    count = len(letters)
    rows = [round(wanted[letter]) for letter in letters]
    for k in range(1, count):
        rows[k] = max(rows[k], rows[k - 1] + 1)
    for k in reversed(range(count)):
        rows[k] = min(rows[k], _HEIGHT - count + k)
    if count > _HEIGHT:
        rows = [k * _HEIGHT // count for k in range(count)]
    marks = [""] * _HEIGHT
    for letter, row in zip(letters, rows, strict=True):
        marks[row] += letter
    return marks


def _apart(values: Sequence[float]) -> list[str]:
    """The values in as few digits, at least three, as tell them apart."""
    written: list[str] = []
    for digits in range(3, 7):
        written = [significant(value, digits) for value in values]
        if len(set(written)) == len(written):
            break
    return written


def _axis(low: float, high: float, *, shown: Callable[[float], float]) -> dict[int, str]:
    """The numbers beside some rows."""
    last = _HEIGHT - 1
    marked = [number for number in range(_HEIGHT) if number % 5 == 0 or number == last]
    values = [shown(high - (high - low) * number / last) for number in marked]
    return dict(zip(marked, _apart(values), strict=True))
