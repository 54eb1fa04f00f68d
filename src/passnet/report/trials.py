"""Runs that stand beside no row of the paper: what was tried, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from passnet.config import better
from passnet.report import numbers
from passnet.report.describe import (
    places_text,
    second_runs,
    standing,
    time_text,
    updates_text,
)
from passnet.report.groups import Group


@dataclass(frozen=True)
class Trial:
    """One set of changed settings, its scores on validation and test data.

    left_out: second runs of its seeds, which the score does not count.
    """

    changes: str
    validation: str
    score: str
    left_out: str
    seeds: int
    updates: str
    time: str
    place: str


@dataclass(frozen=True)
class Trials:
    """All trials of one name, the best on validation first; `shared` are the changes all have."""

    name: str
    metric: str
    shared: str
    chance: str
    rows: tuple[Trial, ...]


def trials(groups: Iterable[Group]) -> list[Trials]:
    """The groups by name, in their order."""
    by_name: dict[str, list[Group]] = {}
    for group in groups:
        by_name.setdefault(group.name, []).append(group)
    return [_of_one_name(members) for members in by_name.values()]


def _of_one_name(groups: list[Group]) -> Trials:
    first = groups[0]
    everywhere = set(first.changes or ())
    everywhere.intersection_update(*(group.changes or () for group in groups))
    if len(groups) == 1:
        everywhere.clear()  # of one alone, all changes are its own
    chances = {numbers.score(group.metric, group.chance()) for group in groups}
    return Trials(
        name=first.name,
        metric=first.metric.replace("_", " "),
        shared=" ".join(change for change in first.changes or () if change in everywhere),
        chance=", ".join(sorted(chances)),
        rows=tuple(_trial(group, shared=everywhere) for group in sorted(groups, key=_rank)),
    )


def _rank(group: Group) -> float:
    """Settings are chosen on validation, so the test has no say in the order."""
    metric = _validated(group)
    found = group.summary(metric, split="validation")
    if found is None:
        return float("inf")
    return found.mean if better(metric) == "min" else -found.mean


def _validated(group: Group) -> str:
    """The metric of the test where validation has it, else the one that selects parameters."""
    known = group.summary(group.metric, split="validation") is not None
    return group.metric if known else group.experiment.selection.metric


def _trial(group: Group, *, shared: set[str]) -> Trial:
    own = [change for change in group.changes or () if change not in shared]
    score = numbers.summary(group.metric, group.summary())
    metric = _validated(group)
    validation = numbers.summary(metric, group.summary(metric, split="validation"))
    other = "" if metric == group.metric else f" ({metric.replace('_', ' ')})"
    return Trial(
        changes=" ".join(own) or ("nothing else" if shared else "nothing"),
        validation=validation + other if group.scored else numbers.ABSENT,
        score=score if group.scored else standing(group),
        left_out=second_runs(group),
        seeds=len(group.finished),
        updates=updates_text(group),
        time=time_text(group),
        place=places_text(group),
    )
