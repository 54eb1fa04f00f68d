"""What the paper concludes from its experiments, and whether the runs here bear it out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from passnet.config import better
from passnet.report import numbers
from passnet.report.describe import updates_text
from passnet.report.groups import Group, first_below
from passnet.report.otherwise import otherwise
from passnet.report.overview import all_cut_short
from passnet.report.paper import compare, standard_error

CLAIMS = "The paper's claims, and what these runs say"
RULE = (
    "One row is better than another if their means differ by more than the spread of the seeds "
    "and, for accuracies, the standard error of one test. If they differ by less, rows with fewer "
    "than three seeds cannot tell; perplexities of one seed each are taken at face value. A memory "
    "task is solved below 0.001 nats on the test; the updates given are those at which validation "
    "first fell below that."
)
Answer = Literal["yes", "no", "in part", "open"]
Groups = Mapping[str, Group]
Test = Callable[[Groups], Answer]


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper, where it stands, the rows that it is about, and what each part of
    it asks of them.

    with_others: what the rows give with settings of the author's logs belongs to it.
    """

    text: str
    where: str
    rows: tuple[str, ...]
    tests: tuple[Test, ...]
    with_others: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim beside the runs: `found` has words on each row, `caveat` what they rest on."""

    text: str
    where: str
    found: tuple[tuple[str, str], ...]
    verdict: str
    caveat: str

    @property
    def kind(self) -> str:
        """How the verdict looks."""
        return {"holds": "good", "does not hold": "bad"}.get(self.verdict, "")


def judged(claims: Iterable[Claim], groups: Sequence[Group]) -> list[Judged]:
    """Each claim beside the runs; one with a row that has no result is not judged."""
    by_name = {group.name: group for group in groups if group.is_preset and group.finished}
    return [_judge(claim, by_name, groups) for claim in claims]


def above(row: str, other: str) -> Test:
    """Whether a row is better than another by more than chance makes them differ."""

    def test(groups: Groups) -> Answer:
        gap, noise = _gap(groups[row], groups[other])
        if abs(gap) > noise:
            return "yes" if gap > 0 else "no"
        several = all(len(groups[name].scored) > 2 for name in (row, other))
        return "no" if several else "open"

    return test


def no_worse(row: str, other: str) -> Test:
    """Whether a row is at least as good as another, but for what chance makes them differ."""

    def test(groups: Groups) -> Answer:
        gap, noise = _gap(groups[row], groups[other])
        return "yes" if gap >= -noise else "no"

    return test


def exceeds(row: str, accuracy: float) -> Test:
    """Whether a row is right more often than an accuracy that was published elsewhere."""

    def test(groups: Groups) -> Answer:
        found = groups[row].summary()
        return "yes" if found is not None and found.mean > accuracy else "no"

    return test


def solves(row: str) -> Test:
    """Whether all seeds are below the bound of a memory task."""

    def test(groups: Groups) -> Answer:
        good, count = len(groups[row].within), len(groups[row].finished)
        return "yes" if good == count else "in part" if good else "no"

    return test


def fails(row: str) -> Test:
    """Whether no seed is below the bound of a memory task."""
    return lambda groups: "no" if groups[row].within else "yes"


def sooner(row: str, other: str) -> Test:
    """Whether the median seed is below the bound on validation at an earlier update."""
    return lambda groups: "yes" if _median(groups[row]) < _median(groups[other]) else "no"


def within(row: str, updates: int) -> Test:
    """Whether every seed is below the bound on validation in so many updates."""
    return lambda groups: "yes" if max(_crossings(groups[row])) <= updates else "no"


def as_printed(row: str) -> Test:
    """Whether a row reaches the paper's own number."""

    def test(groups: Groups) -> Answer:
        verdict = compare(groups[row])
        if verdict is None:
            return "open"
        return "yes" if verdict.good else "in part" if verdict.word == "partly reached" else "no"

    return test


def _judge(claim: Claim, by_name: Groups, groups: Sequence[Group]) -> Judged:
    there = [name for name in claim.rows if name in by_name]
    others = {name: otherwise(name, groups) if claim.with_others else [] for name in there}
    found = tuple((n, "; ".join((_words(by_name[n]), *others[n]))) for n in there)
    verdict = "not run"
    if len(there) == len(claim.rows):
        verdict = _together({test(by_name) for test in claim.tests})
    caveat = _caveat([by_name[name] for name in there])
    return Judged(claim.text, claim.where, found, verdict, caveat)


def _together(answers: set[Answer]) -> str:
    if answers == {"yes"}:
        return "holds"
    if answers == {"no"}:
        return "does not hold"
    return "holds in part" if answers & {"yes", "in part"} else "too few seeds to tell"


def _words(group: Group) -> str:
    words, verdict = numbers.summary(group.metric, group.summary()), compare(group)
    if group.bound is not None:
        updates = sorted(update for update in _crossings(group) if update != float("inf"))
        ends = " to ".join(map(numbers.whole, dict.fromkeys((*updates[:1], *updates[-1:]))))
        words = f"solved by {len(group.within)} of {len(group.finished)} seeds"
        words += f", after {ends} updates" if ends else ""
    elif verdict is not None and "reached" in verdict.word:
        words += f"; {verdict.word} {verdict.text}"
    return f"{words}, cut short at {updates_text(group)}" if all_cut_short(group) else words


def _caveat(groups: Sequence[Group]) -> str:
    single = sum(len(group.scored) == 1 for group in groups)
    if not single:
        return ""
    return "one seed each" if single == len(groups) else f"{single} of {len(groups)} rows: one seed"


def _gap(group: Group, other: Group) -> tuple[float, float]:
    """By how much a group is better than another, and what chance makes of such a gap: the spread
    of seeds and, of accuracies, the standard error of one test."""
    mine, others = group.summary(), other.summary()
    if mine is None or others is None:
        return 0.0, float("inf")
    sign = -1 if better(group.metric) == "min" else 1
    noise = [found.spread or 0.0 for found in (mine, others)]
    if group.metric == "accuracy":
        noise += [standard_error(found.mean) for found in (mine, others)]
    return sign * (mine.mean - others.mean), max(noise)


def _crossings(group: Group) -> list[float]:
    """The updates at which the runs are first below the bound on validation; infinite if never."""
    assert group.bound is not None
    found = [first_below(run, group.metric, group.bound) for run in group.finished]
    return [float("inf") if update is None else update for update in found]


def _median(group: Group) -> float:
    return statistics.median(_crossings(group))
