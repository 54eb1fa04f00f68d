"""Where names can stand beside the points of a chart without touching each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LINE, LETTER, GAP, RADIUS = 12.0, 6.6, 7.0, 5.0
_RISES = (0, 6, -6, 10, -10, 14, -14)
Place = tuple[float, float]
_Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Label:
    """A text beside a point, to its left or right and so many pixels higher."""

    text: str
    left: bool
    rise: float


def place_labels(
    points: Sequence[Place], texts: Sequence[Sequence[str]], widths: Sequence[float]
) -> list[Label | None]:
    """A label for each point that touches nothing in charts of any of the widths, in pixels.

    Points are a share of the width and a height in pixels. Of each point's texts the first with
    room is taken, None where none has; the last points choose first.
    """
    taken = {width: [_around(point, width) for point in points] for width in widths}
    labels: list[Label | None] = [None] * len(points)
    for number in reversed(range(len(points))):
        for label in _choices(texts[number]):
            boxes = {width: _box(points[number], label, width) for width in widths}
            if all(_free(boxes[width], taken[width], width) for width in widths):
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
    return (Label(text, left, rise) for text in texts for rise in _RISES for left in (False, True))


def _around(point: Place, width: float) -> _Box:
    x, y = point[0] * width, point[1]
    return x - RADIUS, x + RADIUS, y - RADIUS, y + RADIUS


def _box(point: Place, label: Label, width: float) -> _Box:
    x, y, length = point[0] * width, point[1] + label.rise, LETTER * len(label.text)
    left, right = (x - GAP - length, x - GAP) if label.left else (x + GAP, x + GAP + length)
    return left, right, y - LINE / 2, y + LINE / 2


def _free(box: _Box, taken: Iterable[_Box], width: float) -> bool:
    return box[0] >= 0 and box[1] <= width and not any(_touch(box, other) for other in taken)


def _touch(one: _Box, other: _Box) -> bool:
    apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
    return not apart
