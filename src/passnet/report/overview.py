"""How much of the paper is reproduced, and by how many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from passnet.report import numbers
from passnet.report.groups import Group, cut_short
from passnet.report.paper import ROWS, TABLES, compare
from passnet.report.read import Run


@dataclass(frozen=True)
class Overview:
    """Counts of rows of the paper, and of runs.

    whole, cut_short, begun, missing: rows with a run that went to its end; with results, but of
    runs that were cut short only; with unfinished runs only; with none.
    printed: rows that stand for the paper's two tables; the others do for its text and figures.
    good, cut_good: rows at least as good as the paper's number, of those that went to their end and
        of those that were cut short.
    short, cut_below: rows that are not, all of them and those that were cut short.
    single: rows with a result of one seed only.
    results, unfinished: all runs with a result and without one, second runs of a seed among them.
    """

    rows: int
    printed: int
    whole: int
    cut_short: tuple[str, ...]
    begun: tuple[str, ...]
    missing: tuple[str, ...]
    good: int
    cut_good: int
    short: tuple[str, ...]
    cut_below: int
    single: int
    results: int
    unfinished: int
    hours: str

    @property
    def below(self) -> int:
        """How many rows that went to their end fall short."""
        return len(self.short) - self.cut_below


def overview(groups: Sequence[Group]) -> Overview:
    """The counts over all groups of a page."""
    by_name = {group.name: group for group in groups if group.is_preset}
    done = [name for name in ROWS if name in by_name and by_name[name].finished]
    cut = tuple(name for name in done if all_cut_short(by_name[name]))
    verdicts = {name: compare(by_name[name]) for name in done}
    good = [name for name, verdict in verdicts.items() if verdict and verdict.good]
    short = tuple(name for name, verdict in verdicts.items() if verdict and not verdict.good)
    runs = [run for group in groups for run in all_runs(group)]
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    return Overview(
        rows=len(ROWS),
        printed=sum(len(t.presets) for t in TABLES if t.anchor.startswith("table-")),
        whole=len(done) - len(cut),
        cut_short=cut,
        begun=tuple(name for name in ROWS if name in by_name and name not in done),
        missing=tuple(name for name in ROWS if name not in by_name),
        good=sum(name not in cut for name in good),
        cut_good=sum(name in cut for name in good),
        short=short,
        cut_below=sum(name in cut for name in short),
        single=sum(len(by_name[name].finished) == 1 for name in done),
        results=len(outcomes),
        unfinished=len(runs) - len(outcomes),
        hours=numbers.duration(sum(outcome.seconds for outcome in outcomes)),
    )


def sentences(found: Overview, *, reasons: bool) -> list[str]:
    """The counts of rows, how many there are first; `reasons`: further below it says why rows fall
    short."""
    why = " (reasons below the tables)" if reasons and found.below else ""
    done, cut = found.whole + len(found.cut_short), len(found.cut_short)
    said = [
        f"The paper's experiments make {found.rows} rows: {found.printed} in its two tables, "
        f"{found.rows - found.printed} in its text and figures.",
        f"{found.whole} ran to the end."
        + _beside_the_paper(found.whole, found.good, found.below, why),
    ]
    if cut:
        stopped = f"{cut} {_were(cut)} stopped early for want of time."
        said.append(stopped + _beside_the_paper(cut, found.cut_good, found.cut_below))
    for state, names in (("not finished", found.begun), ("not run", found.missing)):
        if names:
            few = f": {', '.join(names)}" if len(names) < 4 else ""
            said.append(f"{len(names)} {_were(len(names))} {state}{few}.")
    if found.single:
        said.append(f"{found.single} of the {done} results rest on one seed.")
    return said


def _beside_the_paper(rows: int, good: int, below: int, why: str = "") -> str:
    """How many of some rows reach the paper's number, in a sentence."""
    printed = good + below
    if not printed:
        return ""
    which = f"{'each' if printed == rows else printed} of them" if rows > 1 else "it"
    return (
        f" The paper prints a number for {which}: {good} as good or better, "
        f"{below} short of it{why}."
    )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def all_runs(group: Group) -> tuple[Run, ...]:
    """The runs that count and second runs of their seeds."""
    return (*group.runs, *group.repeated)


def all_cut_short(group: Group) -> bool:
    """Whether every finished run ended for want of time, or at a lower cap than the preset's."""
    return all(cut_short(run, group.experiment) for run in group.finished)
