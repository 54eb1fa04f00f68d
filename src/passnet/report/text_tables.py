"""Tables of runs for a terminal: one for each table of the paper, every row run or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from passnet.config import METRICS, Experiment
from passnet.config.run_folder import DIVERGED
from passnet.experiments import get
from passnet.report import numbers
from passnet.report.alike import alike
from passnet.report.columns import columns, wrapped
from passnet.report.describe import fates, no_score, places_text, time_text, updates_text
from passnet.report.groups import Group
from passnet.report.metric_words import metric_words
from passnet.report.paper import (
    BEYOND,
    TABLES,
    aim_remark,
    compare,
    counted,
    paper_score,
)

_HEADER = (
    "preset", "metric", "paper", "passnet", "verdict", "difference", "seeds", "updates",
    "time each", "parameters", "device, backend",
)  # fmt: skip
_SPARE = (
    "device, backend", "parameters", "time each", "updates", "difference", "seeds", "metric",
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """What stands in one table: presets that have a row, run or not, and the groups of runs."""

    title: str
    presets: tuple[str, ...]
    groups: tuple[Group, ...]


def sections(groups: Sequence[Group]) -> list[Section]:
    """The tables of the paper that have runs, ours beyond it, and then the others by task."""
    found, left = [], list(groups)
    for table in (*TABLES, BEYOND):
        own = tuple(group for group in left if group.name in table.presets)
        left = [group for group in left if group.name not in table.presets]
        if own:
            found.append(Section(table.title, table.presets, own))
    tasks: dict[str, list[Group]] = {}
    for group in left:
        tasks.setdefault(group.name.partition("/")[0], []).append(group)
    return found + [Section(task, (), tuple(members)) for task, members in tasks.items()]


def text_table(section: Section, *, width: int | None = None) -> str:
    """The heading, a row for each preset and each set of changed settings, and remarks on them."""
    entries = list(_entries(section))
    metrics = tuple(dict.fromkeys(metric for _, metric, _ in entries))
    own = _own_words(metrics)
    places = {places_text(group) for group in section.groups if group.finished}
    indented = width is not None and bool(section.presets)
    short = width is not None
    rows = [
        _row(name, group, own[metric], below=indented, short=short)
        for name, metric, group in entries
    ]
    above = [_about(metric, section.groups) for metric in metrics]
    if len(places) < 2:
        rows = [(*row[:-1], "") for row in rows]
        above += [f"all runs on {place}" for place in places]
    said = alike(section.presets, section.groups)
    below = [said.sentence] if said.sentence else []
    for group in section.groups:
        below += _remarks(group, said.remarks)
    return "\n".join(
        (
            section.title,
            *(wrapped(text, width) for text in above),
            columns(_HEADER, rows, width=width, spare=_SPARE),
            *(wrapped(text, width) for text in below),
        )
    )


def title_of(group: Group) -> str:
    """The name and what was changed or, of many changes, where the run is."""
    return group.label if len(group.label) <= 70 else f"{group.name} in {group.runs[0].place}"


def _entries(section: Section) -> Iterator[tuple[str, str, Group | None]]:
    """For each row a preset, the metric, and the runs where there are any."""
    for name in section.presets:
        if not any(group.is_preset and group.name == name for group in section.groups):
            yield name, get(name).metric, None
        yield from ((name, g.metric, g) for g in section.groups if g.name == name)
    if not section.presets:
        yield from ((group.name, group.metric, group) for group in section.groups)


def _row(
    name: str, group: Group | None, metric: str, *, below: bool, short: bool
) -> tuple[str, ...]:
    """The words of a row; changed settings stand without the preset's name `below` its row, ranges
    only where it need not be `short`."""
    if group is None:
        return (name, metric, _bound(get(name)), "not run", *[""] * 7)
    outcomes = [run.outcome for run in group.finished if run.outcome]
    counts = {outcome.parameters for outcome in outcomes} or {
        run.facts.get("parameters") for run in group.runs
    }
    # With other settings it is not the paper's row that was run.
    word, text = _verdict(group) if group.is_preset else (numbers.ABSENT, numbers.ABSENT)
    title = title_of(group)
    return (
        f"  {title.removeprefix(name).lstrip()}" if below and not group.is_preset else title,
        metric,
        _bound(group.experiment) if group.is_preset else numbers.ABSENT,
        _score(group, short=short),
        word,
        text,
        _seeds(group),
        updates_text(group),
        time_text(group),
        "/".join(sorted(map(numbers.count, counts))),
        places_text(group),
    )


def _verdict(group: Group) -> tuple[str, str]:
    """How a preset's runs compare with the paper's number or, without one, whether they solve a
    memory task."""
    found = compare(group)
    if found is not None:
        return found.word, found.text
    if group.bound is None or not group.finished:
        return numbers.ABSENT, numbers.ABSENT
    solved = counted(len(group.within), len(group.finished))
    return solved.word.replace("reached", "solved"), solved.text


def _own_words(metrics: Sequence[str]) -> dict[str, str]:
    """What tells metrics apart in a column: nothing of one alone, else what they do not share."""
    words = {metric: metric_words(metric) for metric in metrics}
    if len(metrics) == 1:
        return dict.fromkeys(metrics, "")
    shared = len({text.partition(", ")[0] for text in words.values()}) == 1
    return {m: text.partition(", ")[2] if shared else text for m, text in words.items()}


def _bound(experiment: Experiment) -> str:
    """The paper's number, without the updates in which a bound is to be reached."""
    return paper_score(experiment).partition(" in ")[0]


def _score(group: Group, *, short: bool) -> str:
    """The score of the seeds together and its spread, or a word for why there is none."""
    found = group.summary()
    if found is not None:
        whole = not short or not numbers.spans_factors(group.metric)
        return (numbers.summary if whole else numbers.middle)(group.metric, found)
    if not group.finished:
        return "unfinished"
    stops = [run.outcome.stopped for run in group.finished if run.outcome]
    return "diverged" if all(stop.startswith(DIVERGED) for stop in stops) else "not a number"


def _about(metric: str, groups: Iterable[Group]) -> str:
    """What a metric measures, which way is better, and what a model without memory has."""
    chances = {
        numbers.score(metric, value)
        for group in groups
        if group.metric == metric and (value := group.chance()) is not None
    }
    words = [metric_words(metric)]
    if metric in METRICS:
        up = METRICS[metric].better == "max"
        words[0] += f" ({METRICS[metric].meaning}; {'higher' if up else 'lower'} is better)"
    words += [f"by chance {' or '.join(sorted(chances))}"] if chances else []
    return ", ".join(words)


def _remarks(group: Group, said: Sequence[str]) -> Iterator[str]:
    """What is to be known of a row, and of its runs that did not end well."""
    words = aim_remark(group.experiment, group) if group.is_preset else []
    words += [text for text in group.remarks if text not in said]
    if words:
        yield f"{title_of(group)}: {'; '.join(words)}"
    for run in group.failed:
        if run.outcome is not None and run.outcome.value is None:
            yield f"{run.place}: failed, {no_score(run.outcome)}"
    for run in group.unfinished:
        total = run.experiment.updates
        bound = "" if total is None else f" of {numbers.whole(total)}"
        yield f"{run.place}: unfinished at update {numbers.whole(run.reached)}{bound}"
    for run in group.repeated:
        value = None if run.outcome is None else run.outcome.value
        score = "" if value is None else f" ({numbers.score(group.metric, value)})"
        yield f"{run.place}: seed {run.experiment.seed} is there already, left out{score}"


def _seeds(group: Group) -> str:
    """Which seeds there are, and what became of those that did not end well."""
    seeds = ranges(run.experiment.seed for run in group.runs)
    ends = ", ".join(fates(group))
    return f"{seeds} ({ends})" if ends else seeds


def ranges(seeds: Iterable[int]) -> str:
    """Whole numbers in short: `0-2 5`."""
    found = []
    for _, pairs in groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0]):
        members = [seed for _, seed in pairs]
        found.append(f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0]))
    return " ".join(found)
