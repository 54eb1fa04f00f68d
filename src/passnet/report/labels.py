"""Where names can stand beside the points of a chart without touching each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LINE, LETTER, GAP, RADIUS = 12.0, 6.6, 9.0, 6.0
_RISES = (0, 6, -6, 10, -10, 14, -14)
_FAR = tuple(sign * rise for rise in range(20, 220, 6) for sign in (1, -1))
Place = tuple[float, float]
_Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Label:
    """A text beside a point, to its left or right and so many pixels higher."""

    text: str
    left: bool
    rise: float

    @property
    def apart(self) -> bool:
        """Whether it is so far from its point that only a line tells which it belongs to."""
        return self.rise in _FAR


def place_labels(
    points: Sequence[Place],
    texts: Sequence[Sequence[str]],
    widths: Sequence[float],
    height: float = math.inf,
) -> list[Label | None]:
    """A label for each point that touches nothing in charts of any of the widths, in pixels.

    Points are a share of the width and a height in pixels. Of each point's texts the first with
    room beside it is taken, else the last where there is room above or below, None where there is
    none; the last points choose first.
    """
    taken = {width: [_around(point, width) for point in points] for width in widths}
    labels: list[Label | None] = [None] * len(points)
    for number in reversed(range(len(points))):
        for label in _choices(texts[number]):
            boxes = {width: _box(points[number], label, width) for width in widths}
            if all(_free(boxes[width], taken[width], width, height) for width in widths):
                for width in widths:
                    taken[width].append(boxes[width])
                labels[number] = label
                break
    return labels


def near(points: Sequence[Place], width: float) -> list[list[int]]:
    """For each point the numbers of the others whose marks it touches."""
    around = [_around(point, width) for point in points]
    return [
        [k for k, box in enumerate(around) if k != number and _touch(box, own)]
        for number, own in enumerate(around)
    ]


def _choices(texts: Sequence[str]) -> Iterable[Label]:
    beside = [(text, rise) for text in texts for rise in _RISES]
    away = [(texts[-1], rise) for rise in _FAR]
    return (Label(text, left, rise) for text, rise in beside + away for left in (False, True))


def _around(point: Place, width: float) -> _Box:
    x, y = point[0] * width, point[1]
    return x - RADIUS, x + RADIUS, y - RADIUS, y + RADIUS


def _box(point: Place, label: Label, width: float) -> _Box:
    x, y, length = point[0] * width, point[1] + label.rise, LETTER * len(label.text)
    left, right = (x - GAP - length, x - GAP) if label.left else (x + GAP, x + GAP + length)
    return left, right, y - LINE / 2, y + LINE / 2


def _free(box: _Box, taken: Iterable[_Box], width: float, height: float) -> bool:
    inside = box[0] >= 0 and box[1] <= width and box[2] >= 0 and box[3] <= height
    return inside and not any(_touch(box, other) for other in taken)


def _touch(one: _Box, other: _Box) -> bool:
    apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
    return not apart
