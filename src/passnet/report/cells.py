"""What stands in each column of the page's tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from passnet.config import Experiment, experiment_parameter_counts
from passnet.report import numbers
from passnet.report.describe import (
    places_text,
    seeds_text,
    standing,
    time_text,
    updates_text,
)
from passnet.report.groups import SOLVED, Group, Summary, first_below
from passnet.report.paper import (
    BEYOND,
    Table,
    aim_score,
    compare,
    paper_score,
    reached,
    remarks,
)


@dataclass(frozen=True)
class Cell:
    """Text with the kind of thing it is, for its looks, a longer form for who asks, a second
    line."""

    text: str
    kind: str = ""
    hint: str = ""
    below: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row before it is written: a preset and its runs, if there are any.

    otherwise: what it gives with settings that the paper's code or logs have.
    said: remarks that the caption of its table has.
    """

    experiment: Experiment
    group: Group | None
    chance: float | None
    otherwise: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column; neighbours with the same `over` share a heading above theirs."""

    title: str
    cell: Callable[[TableRow], Cell]
    over: str = ""


def columns_of(table: Table, place: str = "") -> list[Column]:
    """The columns of a table, after that of the models; `place` is one that all its runs share."""
    validation = table.anchor == "table-1"
    words = [Column("drop-out", _dropout), Column("tied", _tied)]
    characters = table.anchor == "table-2"
    tests = [Column("test", _measured if table is BEYOND else _test, "passnet")]
    if characters:
        tests = [Column(f"test, {how}", _perplexity(how), "passnet") for how in ("macro", "micro")]
    highest = "valid., highest"
    return [
        Column("test", _paper_kind if characters or table is BEYOND else _paper, "paper"),
        *([Column(highest, _paper_validation, "paper")] if validation else []),
        *tests,
        *([Column("valid., as tested", _validation, "passnet")] if validation else []),
        *([Column(highest, _highest, "passnet")] if validation else []),
        *(Column(*second, "passnet") for second in _SECOND_SCORES.get(table.anchor, ())),
        Column("beside the paper", _verdict, "passnet"),
        *([Column("aim", _aim, "passnet")] if table is BEYOND else []),
        Column("seeds", _seeds, "passnet"),
        Column("chance", _chance),
        Column("state", _size, "shape"),
        Column("rank", _rank, "shape"),
        *([replace(word, over="shape") for word in words] if characters else []),
        Column("printed", _printed, "parameters"),
        Column("paper's rule", _by_rule, "parameters"),
        Column("true", _true, "parameters"),
        Column("updates, time", _effort, "each run"),
        *([] if place else [Column("device, backend", _place, "each run")]),
    ]


def _size(row: TableRow) -> Cell:
    return Cell(str(row.experiment.model.size), "number")


def _rank(row: TableRow) -> Cell:
    rank = getattr(row.experiment.model.matrix, "rank", None)
    return Cell(numbers.ABSENT if rank is None else str(rank), "number")


def _dropout(row: TableRow) -> Cell:
    return Cell("yes" if row.experiment.model.dropout_state else "no")


def _tied(row: TableRow) -> Cell:
    tied = getattr(row.experiment.model.matrix, "tied", None)
    return Cell({None: numbers.ABSENT, True: "yes", False: "no"}[tied])


def _printed(row: TableRow) -> Cell:
    paper = row.experiment.paper
    text = None if paper is None else paper.parameters
    if text and text.isdigit():
        text = numbers.count(int(text))
    return Cell(text or numbers.ABSENT, "number paper")


def _by_rule(row: TableRow) -> Cell:
    return _count(experiment_parameter_counts(row.experiment).paper)


def _true(row: TableRow) -> Cell:
    return _count(experiment_parameter_counts(row.experiment).model)


def _count(number: int | None) -> Cell:
    return Cell(numbers.count(number), "number", "" if number is None else numbers.whole(number))


def _paper(row: TableRow) -> Cell:
    text, _, within = paper_score(row.experiment).partition(" in ")
    return Cell(text, "number paper", below=f"in {within}" if within else "")


def _paper_kind(row: TableRow) -> Cell:
    """The paper's number and, of a perplexity, how it averages."""
    paper, cell = row.experiment.paper, _paper(row)
    if paper is None or not paper.metric.startswith("perplexity"):
        return cell
    return replace(cell, below=paper.metric.rpartition("_")[2])


def _paper_validation(row: TableRow) -> Cell:
    paper = row.experiment.paper
    value = None if paper is None else paper.validation
    return Cell(numbers.score("accuracy", value, digits=1), "number paper")


def _validation(row: TableRow) -> Cell:
    found = row.group.summary("accuracy", split="validation") if row.group else None
    return _scored("accuracy", found)


def _highest(row: TableRow) -> Cell:
    return _scored("accuracy", row.group.highest("accuracy") if row.group else None)


def _measured(row: TableRow) -> Cell:
    """The test score and what it measures, where tasks of several kinds share a table."""
    cell, group = _test(row), row.group
    if group is None or group.summary() is None:
        return cell
    return replace(cell, below=", ".join(filter(None, (cell.below, _words(group.metric)))))


def _words(metric: str) -> str:
    """A metric in a word or two for a narrow column."""
    name, _, how = metric.partition("_")
    short = {"cross": "nats", "mse": "MSE", "perplexity": f"perplexity {how}"}
    return short.get(name, metric.replace("_", " "))


def _test(row: TableRow) -> Cell:
    group = row.group
    if group is None or not group.finished:
        return Cell(standing(group), "absent")
    found = group.summary()
    if found is None:
        return Cell(standing(group), "bad")
    low, high = (numbers.score(group.metric, value) for value in (found.least, found.most))
    hint = f"{group.metric}, from {low} to {high}" if found.count > 1 else group.metric
    return _scored(group.metric, found, kind="number ours", hint=hint)


def _scored(metric: str, found: Summary | None, *, kind: str = "number", hint: str = "") -> Cell:
    return Cell(numbers.middle(metric, found), kind, hint, below=numbers.spread(metric, found))


def _seeds(row: TableRow) -> Cell:
    if row.group is None or not row.group.finished:
        return Cell(numbers.ABSENT)
    missed = row.group.bound is not None and len(row.group.within) < len(row.group.finished)
    return Cell(seeds_text(row.group), "bad" if row.group.failed or missed else "")


def _verdict(row: TableRow) -> Cell:
    found = compare(row.group)
    done = row.group if row.group is not None and row.group.finished else None
    words = [] if done is None else remarks(done, row.said)
    if found is None:
        return Cell(numbers.ABSENT, "verdict", below="; ".join(words))
    below = "; ".join((found.text, *words, *row.otherwise))
    return Cell(found.word, "verdict " + ("good" if found.good else "bad"), below=below)


def _aim(row: TableRow) -> Cell:
    aim = row.experiment.aim
    if aim is None:
        return Cell(numbers.ABSENT)
    found = reached(aim, row.group)
    kind = "" if found is None else "good" if found.good else "bad"
    below = "" if found is None else found.word
    return Cell(aim_score(aim), kind, hint=aim.metric.replace("_", " "), below=below)


def _chance(row: TableRow) -> Cell:
    metric = row.group.metric if row.group else row.experiment.metric
    return Cell(numbers.score(metric, row.chance), "number")


def _effort(row: TableRow) -> Cell:
    if row.group is None or not row.group.finished:
        return Cell(numbers.ABSENT, "number")
    time = time_text(row.group)
    # Times on several devices are too long for one line.
    return Cell(updates_text(row.group), "" if "," in time else "number", below=time)


def _place(row: TableRow) -> Cell:
    return Cell(places_text(row.group) if row.group else numbers.ABSENT, "place")


def _perplexity(how: str) -> Callable[[TableRow], Cell]:
    """Perplexity averaged in one of two ways; the one that the paper prints looks like a test's."""
    metric = f"perplexity_{how}"

    def cell(row: TableRow) -> Cell:
        if metric == row.experiment.metric:
            return _test(row)
        return _metric_cell(metric)(row)

    return cell


def _metric_cell(metric: str) -> Callable[[TableRow], Cell]:
    """The test score of a metric that is not the preset's own."""

    def cell(row: TableRow) -> Cell:
        found = row.group.summary(metric) if row.group else None
        return _scored(metric, found, hint=metric.replace("_", " "))

    return cell


def _solved_at(row: TableRow) -> Cell:
    if row.group is None or row.experiment.task.kind != "copy":
        return Cell(numbers.ABSENT)
    crossings = (first_below(run, "cross_entropy_nats", SOLVED) for run in row.group.runs)
    updates = sorted(update for update in crossings if update is not None)
    return Cell(", ".join(map(numbers.whole, updates)) or numbers.ABSENT)


_Second = tuple[str, Callable[[TableRow], Cell]]
_BITS: _Second = ("bits/char., micro", _metric_cell("bits_per_character_micro"))
_SOLVED: _Second = ("valid. first below 0.001 at", _solved_at)
_SECOND_SCORES: dict[str, tuple[_Second, ...]] = {
    "table-2": (_BITS,),
    "memory-fixed": (_SOLVED,),
    "memory-length": (_SOLVED,),
    "memory-lag": (_SOLVED,),
    "addition": (("test, marked anywhere", _metric_cell("mse_author_distribution")),),
    "beyond": (_BITS, _SOLVED),
}
