"""How much of the paper is reproduced, and by how many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from passnet.report import numbers
from passnet.report.groups import Group, cut_short
from passnet.report.paper import TABLES, compare
from passnet.report.read import Run


@dataclass(frozen=True)
class Overview:
    """Counts of rows of the paper, and of runs.

    whole, cut_short, begun, missing: rows with a run that went to its end; with results, but of
    runs that were cut short only; with unfinished runs only; with none.
    good, short: rows at least as good as the paper's number, and those that are not.
    single: rows with a result of one seed only.
    results, unfinished: all runs with a result and without one, second runs of a seed among them.
    """

    rows: int
    whole: int
    cut_short: tuple[str, ...]
    begun: tuple[str, ...]
    missing: tuple[str, ...]
    good: int
    short: tuple[str, ...]
    single: int
    results: int
    unfinished: int
    hours: str


def overview(groups: Sequence[Group]) -> Overview:
    """The counts over all groups of a page."""
    by_name = {group.name: group for group in groups if group.is_preset}
    rows = [name for table in TABLES for name in table.presets]
    done = [name for name in rows if name in by_name and by_name[name].finished]
    cut = tuple(name for name in done if all_cut_short(by_name[name]))
    verdicts = {name: compare(by_name[name]) for name in done}
    runs = [run for group in groups for run in all_runs(group)]
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    return Overview(
        rows=len(rows),
        whole=len(done) - len(cut),
        cut_short=cut,
        begun=tuple(name for name in rows if name in by_name and name not in done),
        missing=tuple(name for name in rows if name not in by_name),
        good=sum(verdict is not None and verdict.good for verdict in verdicts.values()),
        short=tuple(n for n, verdict in verdicts.items() if verdict and not verdict.good),
        single=sum(len(by_name[name].finished) == 1 for name in done),
        results=len(outcomes),
        unfinished=len(runs) - len(outcomes),
        hours=numbers.duration(sum(outcome.seconds for outcome in outcomes)),
    )


def in_words(found: Overview, *, reasons: bool) -> str:
    """The counts of rows in sentences; `reasons`: what falls short is explained further below."""
    left = {
        "cut short by time": len(found.cut_short),
        "not finished": len(found.begun),
        "not run": len(found.missing),
    }
    states = [f"{found.whole} finished here"]
    states += [f"{count} {state}" for state, count in left.items() if count]
    sentences = [f"The paper has {found.rows} rows: {', '.join(states)}."]
    compared, done = found.good + len(found.short), found.whole + len(found.cut_short)
    if compared:
        cut = ", also when cut short," if found.cut_short else ""
        sentences.append(
            f"Of the {compared} with a number in the paper and a result here{cut} {found.good} "
            f"match the paper or are better and {len(found.short)} fall short"
            + (
                "; what is known of the reasons stands below the tables."
                if found.short and reasons
                else "."
            )
        )
    if done:
        sentences.append(f"{found.single} of the {done} results rest on one seed.")
    return " ".join(sentences)


def all_runs(group: Group) -> tuple[Run, ...]:
    """The runs that count and second runs of their seeds."""
    return (*group.runs, *group.repeated)


def all_cut_short(group: Group) -> bool:
    """Whether every finished run ended for want of time, or at a lower cap than the preset's."""
    return all(cut_short(run, group.experiment) for run in group.finished)
