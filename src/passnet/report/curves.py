"""Curves: our validation scores over updates or epochs, and those the author committed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from passnet.report.groups import Group

AUTHOR = "the author's log"


@dataclass(frozen=True)
class Curve:
    """One line of a plot: `series` shares a colour and a legend entry, `name` is this line."""

    series: str
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class AuthorCurve:
    """A curve of the author's, of `metric` over `unit`."""

    points: tuple[tuple[float, float], ...]
    metric: str
    unit: Literal["update", "epoch"]
    of: str


@cache
def author_curves() -> dict[str, AuthorCurve]:
    """The author's curves by name."""
    return {
        name: AuthorCurve(
            points=tuple(zip(record["x"], record["y"], strict=True)),
            metric=record["metric"],
            unit=record["unit"],
            of=record["of"],
        )
        for name, record in _author_file()["curves"].items()
    }


def author_source() -> str:
    """Where the author's curves come from, in a sentence."""
    return _author_file()["source"]


def author_repositories() -> list[str]:
    """The addresses of the repositories that hold the author's logs."""
    return sorted({record["repository"] for record in _author_file()["curves"].values()})


def group_curves(
    groups: Iterable[Group], metric: str, *, unit: Literal["update", "epoch"] = "update"
) -> list[Curve]:
    """The validation scores of all runs of some groups that have that metric; the seeds of a group
    share a series."""
    found = []
    for group in groups:
        for run in group.runs:
            scored = ((getattr(point, unit), point.scores.get(metric)) for point in run.evaluations)
            points = tuple((float(x), y) for x, y in scored if x is not None and y is not None)
            if points:
                name = f"{group.label}, seed {run.experiment.seed}"
                found.append(Curve(group.label, name, points))
    return found


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most about `most` of the points: the ends, and the lowest and highest of each stretch."""
    if len(points) <= most:
        return list(points)
    inner = points[1:-1]
    stretches = max(1, (most - 2) // 2)
    kept = [points[0]]
    for number in range(stretches):
        low = number * len(inner) // stretches
        high = (number + 1) * len(inner) // stretches
        part = inner[low:high]
        if part:
            ends = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
            kept += sorted(ends)
    return [*kept, points[-1]]


def spans_decades(values: Iterable[float]) -> bool:
    """Whether values lie so far apart that a logarithmic axis shows them better.

    A score of exactly 0 does not speak against it: there is just no place for it then.
    """
    known = list(values)
    positive = [value for value in known if value > 0]
    return bool(positive) and min(known) >= 0 and max(positive) / min(positive) >= 50


def above_zero(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The points that a logarithmic axis has a place for."""
    return tuple(point for point in points if point[1] > 0)


def _author_file() -> dict:
    file = resources.files("passnet.report") / "data" / "author_curves.json"
    return json.loads(file.read_text(encoding="utf-8"))
