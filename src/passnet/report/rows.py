"""The page's tables, row by row: every row of the paper, run or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from passnet.config.tasks import SequentialMnistTask, Task
from passnet.experiments import get
from passnet.report.alike import alike
from passnet.report.cells import Cell, Column, TableRow, columns_of
from passnet.report.groups import Group
from passnet.report.otherwise import otherwise
from passnet.report.paper import BEYOND, Table, compare, model_name


@dataclass(frozen=True)
class Heading:
    """The heading of a column, or of the columns `inner` together."""

    title: str
    inner: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A written row.

    notes: the numbers of the footnotes that belong to it.
    links: words, and the anchor of what notes on the results say about it.
    """

    preset: str
    title: str
    cells: tuple[Cell, ...]
    notes: tuple[int, ...]
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Written:
    """A table ready for a template: headings, rows and footnotes; `shared` is said of all rows."""

    table: Table
    shared: tuple[str, ...]
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def write_table(
    table: Table, groups: Sequence[Group], about: Mapping[str, Sequence[str]]
) -> Written:
    """One row for each preset of the table, run or not; `about` has the anchors of notes on it."""
    by_name = {group.name: group for group in groups if group.is_preset}
    chances = _chances(groups)
    shared = alike(table.presets, groups)
    columns = columns_of(table, shared.place)
    rows, notes = [], []
    for name in table.presets:
        experiment = get(name)
        group = by_name.get(name)
        metric = group.metric if group else experiment.metric
        chance = chances.get((_asked(experiment.task), metric))
        others = tuple(otherwise(name, groups))
        row = TableRow(experiment, group, chance, others, shared.remarks)
        for note in experiment.notes:
            if note not in notes:
                notes.append(note)
        marks = tuple(notes.index(note) + 1 for note in experiment.notes)
        title = name if table is BEYOND else model_name(experiment.model)
        cells = tuple(column.cell(row) for column in columns)
        links = _links(group, about.get(name, ()))
        rows.append(Row(name, title, cells, tuple(sorted(marks)), links))
    return Written(
        table=table,
        shared=tuple(text for text in (shared.sentence, _everywhere(shared.place)) if text),
        headings=_headings(columns),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _everywhere(place: str) -> str:
    device, _, backend = place.rpartition(", ")
    return f"All runs on {device}, with the {backend} backend." if place else ""


def _links(group: Group | None, anchors: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The first note on a row that falls short says why, as far as that is known; several others
    are numbered."""
    verdict = compare(group)
    why = anchors[:1] if verdict is not None and not verdict.good else ()
    rest = anchors[len(why) :]
    words = ["note"] if len(rest) == 1 else [f"note {k}" for k, _ in enumerate(rest, start=1)]
    return (*(("why", anchor) for anchor in why), *zip(words, rest, strict=True))


def _headings(columns: Sequence[Column]) -> tuple[Heading, ...]:
    found: list[Heading] = []
    for column in columns:
        if not column.over:
            found.append(Heading(column.title))
        elif found and found[-1].title == column.over:
            found[-1] = Heading(column.over, (*found[-1].inner, column.title))
        else:
            found.append(Heading(column.over, (column.title,)))
    return tuple(found)


def _chances(groups: Iterable[Group]) -> dict[tuple[object, str], float]:
    found = {}
    for group in groups:
        chance = group.chance()
        if chance is not None:
            found[_asked(group.experiment.task), group.metric] = chance
    return found


def _asked(task: Task) -> Task:
    """The task as its test asks it, which is the same whatever is held out of training."""
    return replace(task, hold_out=True) if isinstance(task, SequentialMnistTask) else task
