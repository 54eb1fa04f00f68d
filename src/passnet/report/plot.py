"""Several curves as one plot of braille dots, for a terminal or a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from passnet.report.curves import Curve, above_zero, spans_decades
from passnet.report.numbers import significant

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def text_plot(
    curves: Sequence[Curve], title: str, *, width: int = 64, height: int = 14, unit: str = "update"
) -> str:
    """The curves with axes and a legend; each ends in the letter of its series.

    The vertical axis is logarithmic where the values span decades.
    """
    log = spans_decades(y for curve in curves for _, y in curve.points)
    if log:
        curves = [replace(curve, points=above_zero(curve.points)) for curve in curves]
        curves = [curve for curve in curves if curve.points]
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    raised: Callable[[float], float] = math.log10 if log else float
    low_x, high_x = _widened(min(xs), max(xs))
    low_y, high_y = _widened(raised(min(ys)), raised(max(ys)))
    canvas = [[0] * width for _ in range(height)]

    def place(x: float, y: float) -> tuple[int, int]:
        column = round((x - low_x) / (high_x - low_x) * (2 * width - 1))
        row = round((high_y - raised(y)) / (high_y - low_y) * (4 * height - 1))
        return column, row

    letters = dict(zip(dict.fromkeys(curve.series for curve in curves), _LETTERS, strict=False))
    ends = []
    for curve in curves:
        dots = [place(x, y) for x, y in curve.points]
        for start, end in zip(dots, dots[1:] or dots, strict=False):
            _line(canvas, start, end)
        ends.append((letters.get(curve.series, "*"), *dots[-1]))
    rows = [[chr(0x2800 + dots) if dots else " " for dots in line] for line in canvas]
    for letter, column, row in ends:
        _put_letter(rows, letter, column // 2, row // 4)
    lines = [title + (", logarithmic" if log else "")]
    lines += _with_axis(rows, low_y, high_y, log=log)
    left, right = f"{low_x:.0f}", f"{high_x:.0f} {unit}s"
    lines.append(" " * 10 + left + right.rjust(width - len(left) + 1))
    for series, letter in letters.items():
        count = sum(curve.series == series for curve in curves)
        lines.append(f"  {letter} {series}" + (f", {count} seeds" if count > 1 else ""))
    return "\n".join(line.rstrip() for line in lines)


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


def _put_letter(rows: list[list[str]], letter: str, column: int, row: int) -> None:
    """At the end of the curve, or as near to it as other letters leave room."""
    while column > 0 and rows[row][column].isascii() and rows[row][column] != " ":
        column -= 1
    rows[row][column] = letter


def _apart(values: Sequence[float]) -> list[str]:
    """The values in as few digits, at least three, as tell them apart."""
    written: list[str] = []
    for digits in range(3, 7):
        written = [significant(value, digits) for value in values]
        if len(set(written)) == len(written):
            break
    return written


def _with_axis(rows: list[list[str]], low: float, high: float, *, log: bool) -> list[str]:
    last = len(rows) - 1
    marked = [number for number in range(len(rows)) if number % 4 == 0 or number == last]
    values = [high - (high - low) * number / last for number in marked]
    labels = dict(zip(marked, _apart([10**v if log else v for v in values]), strict=True))
    lines = []
    for number, row in enumerate(rows):
        label = labels.get(number, "")
        lines.append(f"{label:>8} ┤{''.join(row)}" if label else f"{'':8} │{''.join(row)}")
    return [*lines, f"{'':8} └{'─' * len(rows[0])}"]
