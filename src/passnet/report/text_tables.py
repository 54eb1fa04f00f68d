"""Tables of runs for a terminal: one for each task and metric, what all its rows share above it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from passnet.report import numbers
from passnet.report.describe import fates, places_text, time_text, updates_text
from passnet.report.groups import Group
from passnet.report.paper import paper_score

_HEADER = ("preset", "seeds", "ours", "paper", "parameters", "updates", "time", "device, backend")


def text_tables(groups: Iterable[Group]) -> list[str]:
    """The groups in tables, a row each, in the order in which tasks and metrics come first."""
    kinds: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        kinds.setdefault((task_of(group), group.metric), []).append(group)
    return [_section(*kind, members) for kind, members in kinds.items()]


def task_of(group: Group) -> str:
    """The task in a preset's name."""
    return group.name.partition("/")[0]


def title_of(group: Group) -> str:
    """The name and what was changed or, of many changes, where the run is."""
    return group.label if len(group.label) <= 70 else f"{group.name} in {group.runs[0].place}"


def _section(task: str, metric: str, groups: Sequence[Group]) -> str:
    places = {places_text(group) for group in groups if group.finished}
    apart = len(places) > 1
    chances = {numbers.score(metric, value) for group in groups if (value := group.chance())}
    words = [f"{task}, {metric}"]
    words += [f"by chance {' or '.join(sorted(chances))}"] if chances else []
    words += [] if apart else [f"on {place}" for place in places]
    rows = [_row(group) for group in groups]
    kept = len(_HEADER) if apart else len(_HEADER) - 1
    return f"{'; '.join(words)}\n{_table([row[:kept] for row in (_HEADER, *rows)])}"


def _row(group: Group) -> tuple[str, ...]:
    outcomes = [run.outcome for run in group.finished if run.outcome]
    parameters = {outcome.parameters for outcome in outcomes} or {
        run.facts.get("parameters") for run in group.runs
    }
    return (
        title_of(group),
        _seeds(group),
        numbers.summary(group.metric, group.summary()),
        paper_score(group.experiment) if group.is_preset else numbers.ABSENT,
        "/".join(numbers.ABSENT if n is None else str(n) for n in sorted(parameters, key=str)),
        updates_text(group),
        time_text(group),
        places_text(group),
    )


def _seeds(group: Group) -> str:
    """Which seeds there are, and what became of those that did not end well."""
    return ", ".join((_ranges(run.experiment.seed for run in group.runs), *fates(group)))


def _ranges(seeds: Iterable[int]) -> str:
    """Whole numbers in short: `0-2 5`."""
    found = []
    for _, pairs in groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0]):
        members = [seed for _, seed in pairs]
        found.append(f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0]))
    return " ".join(found)


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
