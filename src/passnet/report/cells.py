"""What stands in each column of the page's tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from passnet.config import Experiment, experiment_parameter_counts
from passnet.report import numbers
from passnet.report.describe import (
    mean_seconds,
    places_text,
    second_runs,
    seeds_text,
    standing,
    updates_text,
)
from passnet.report.groups import Group, Summary, first_below
from passnet.report.paper import (
    BEYOND,
    SOLVED,
    Table,
    aim_score,
    compare,
    paper_score,
    reached,
    solved,
)


@dataclass(frozen=True)
class Cell:
    """Text with the kind of thing it is, for its looks, a longer form for who asks, and a second
    line."""

    text: str
    kind: str = ""
    hint: str = ""
    below: str = ""


@dataclass(frozen=True)
class Case:
    """A row before it is written: a preset and its runs, if there are any.

    otherwise: what it gives with settings that the paper's code or logs have.
    """

    experiment: Experiment
    group: Group | None
    chance: float | None
    otherwise: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column; neighbours with the same `over` share a heading above theirs."""

    title: str
    cell: Callable[[Case], Cell]
    over: str = ""


def columns_of(table: Table) -> list[Column]:
    """The columns of a table, after that of the models."""
    validation = table.anchor == "table-1"
    words = [Column("drop-out", _dropout), Column("tied", _tied)]
    characters = table.anchor == "table-2"
    tests = [Column("test", _test, "passnet")]
    if characters:
        tests = [Column(f"test, {how}", _perplexity(how), "passnet") for how in ("macro", "micro")]
    return [
        Column("test", _paper_kind if characters else _paper, "paper"),
        *([Column("valid.", _paper_validation, "paper")] if validation else []),
        *tests,
        *([Column("valid.", _validation, "passnet")] if validation else []),
        *([Column(*_ALSO[table.anchor], "passnet")] if table.anchor in _ALSO else []),
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
        Column("device, backend", _place, "each run"),
    ]


def _size(case: Case) -> Cell:
    return Cell(str(case.experiment.model.size), "number")


def _rank(case: Case) -> Cell:
    rank = getattr(case.experiment.model.matrix, "rank", None)
    return Cell(numbers.ABSENT if rank is None else str(rank), "number")


def _dropout(case: Case) -> Cell:
    return Cell("yes" if case.experiment.model.dropout_state else "no")


def _tied(case: Case) -> Cell:
    tied = getattr(case.experiment.model.matrix, "tied", None)
    return Cell({None: numbers.ABSENT, True: "yes", False: "no"}[tied])


def _printed(case: Case) -> Cell:
    paper = case.experiment.paper
    text = None if paper is None else paper.parameters
    if text and text.isdigit():
        text = numbers.count(int(text))
    return Cell(text or numbers.ABSENT, "number paper")


def _by_rule(case: Case) -> Cell:
    return _count(experiment_parameter_counts(case.experiment).paper)


def _true(case: Case) -> Cell:
    return _count(experiment_parameter_counts(case.experiment).model)


def _count(number: int | None) -> Cell:
    return Cell(numbers.count(number), "number", "" if number is None else numbers.whole(number))


def _paper(case: Case) -> Cell:
    text, _, within = paper_score(case.experiment).partition(" in ")
    return Cell(text, "number paper", below=f"in {within}" if within else "")


def _paper_kind(case: Case) -> Cell:
    """The paper's perplexity, and how it averages."""
    paper = case.experiment.paper
    how = "" if paper is None else paper.metric.rpartition("_")[2]
    return replace(_paper(case), below=how)


def _paper_validation(case: Case) -> Cell:
    paper = case.experiment.paper
    value = None if paper is None else paper.validation
    return Cell(numbers.score("accuracy", value, digits=1), "number paper")


def _validation(case: Case) -> Cell:
    found = case.group.summary("accuracy", split="validation") if case.group else None
    return _scored("accuracy", found)


def _test(case: Case) -> Cell:
    group = case.group
    if group is None or not group.finished:
        return Cell(standing(group), "absent")
    found = group.summary()
    if found is None:
        return Cell(standing(group), "bad")
    low, high = (numbers.score(group.metric, value) for value in (found.least, found.most))
    hint = f"{group.metric}, from {low} to {high}" if found.count > 1 else group.metric
    return _scored(group.metric, found, kind="number ours", hint=hint)


def _scored(metric: str, found: Summary | None, *, kind: str = "number", hint: str = "") -> Cell:
    mean = None if found is None else found.mean
    return Cell(numbers.score(metric, mean), kind, hint, below=numbers.spread(metric, found))


def _seeds(case: Case) -> Cell:
    if case.group is None or not case.group.finished:
        return Cell(numbers.ABSENT)
    return Cell(seeds_text(case.group), "bad" if case.group.failed else "")


def _verdict(case: Case) -> Cell:
    found = compare(case.group)
    done = case.group if case.group is not None and case.group.finished else None
    words = () if done is None else (solved(done), done.remark, second_runs(done))
    remarks = [text for text in words if text]
    if found is None:
        return Cell(numbers.ABSENT, below="; ".join(remarks))
    below = "; ".join((found.text, *remarks, *case.otherwise))
    return Cell(found.word, "good" if found.good else "bad", below=below)


def _aim(case: Case) -> Cell:
    aim = case.experiment.aim
    if aim is None:
        return Cell(numbers.ABSENT)
    found = reached(aim, case.group)
    kind = "" if found is None else "good" if found.good else "bad"
    below = "" if found is None else found.word
    return Cell(aim_score(aim), kind, hint=aim.metric.replace("_", " "), below=below)


def _chance(case: Case) -> Cell:
    metric = case.group.metric if case.group else case.experiment.metric
    return Cell(numbers.score(metric, case.chance), "number")


def _effort(case: Case) -> Cell:
    if case.group is None or not case.group.finished:
        return Cell(numbers.ABSENT, "number")
    time = numbers.duration(mean_seconds(case.group))
    return Cell(updates_text(case.group), "number", below=time)


def _place(case: Case) -> Cell:
    return Cell(places_text(case.group) if case.group else numbers.ABSENT, "place")


def _perplexity(how: str) -> Callable[[Case], Cell]:
    """Perplexity averaged in one of two ways; the one that the paper prints is marked."""
    metric = f"perplexity_{how}"

    def cell(case: Case) -> Cell:
        if metric == case.experiment.metric:
            test = _test(case)
            mark = "beside the paper's" if test.kind == "number ours" else ""
            return replace(test, below=" ".join(word for word in (test.below, mark) if word))
        found = case.group.summary(metric) if case.group else None
        return _scored(metric, found, hint=metric)

    return cell


def _bits(case: Case) -> Cell:
    metric = "bits_per_character_micro"
    found = case.group.summary(metric) if case.group else None
    return _scored(metric, found)


def _solved_at(case: Case) -> Cell:
    if case.group is None:
        return Cell(numbers.ABSENT)
    crossings = (first_below(run, "cross_entropy_nats", SOLVED) for run in case.group.runs)
    updates = sorted(update for update in crossings if update is not None)
    return Cell(", ".join(map(numbers.whole, updates)) or numbers.ABSENT)


def _anywhere(case: Case) -> Cell:
    metric = "mse_author_distribution"
    found = case.group.summary(metric) if case.group else None
    return _scored(metric, found)


def _also(case: Case) -> Cell:
    kind = case.experiment.task.kind
    if kind == "character":
        return replace(_bits(case), hint="bits per character, micro")
    return _solved_at(case) if kind == "copy" else Cell(numbers.ABSENT)


_ALSO: dict[str, tuple[str, Callable[[Case], Cell]]] = {
    "table-2": ("bits/char., micro", _bits),
    "memory-fixed": ("first below 1e-3 at", _solved_at),
    "memory-length": ("first below 1e-3 at", _solved_at),
    "memory-lag": ("first below 1e-3 at", _solved_at),
    "addition": ("test, marked anywhere", _anywhere),
    "beyond": ("bits/char., or first below 1e-3 at", _also),
}
