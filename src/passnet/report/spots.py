"""The models of a chart of score against parameters: the paper's, ours, and those of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from passnet.config import PaperResult, experiment_parameter_counts, printed_count
from passnet.experiments import get
from passnet.report.groups import Group, Summary, summarise
from passnet.report.paper import BEYOND, ROWS, TABLES, model_name
from passnet.report.published import published

PAPER, OURS, FURTHER = "the paper", "passnet, the paper's protocol", "passnet, beyond the paper"
PUBLISHED = "published by others"
CONVERTED = f"{PUBLISHED}, converted"
MACRO, MICRO = ", macro", ", micro"
"""What is added to a source where its scores are averaged in one of two ways."""


@dataclass(frozen=True)
class Spot:
    """A model in a chart of score against parameters; `source` shares colour and shape."""

    source: str
    model: str
    parameters: float
    value: float
    spread: float | None = None
    note: str = ""


def published_spots(task: str) -> list[Spot]:
    """What others published on a task, where they say how many parameters they have."""
    return [
        Spot(PUBLISHED, row.model, row.parameters, row.value, note=row.note)
        if row.converted is None
        else Spot(
            CONVERTED,
            row.model,
            row.parameters,
            row.converted,
            note=f"{row.value} in its own tokens, converted",
        )
        for row in published()[task]
        if row.parameters is not None
    ]


def paper_spots(
    anchor: str, shown: Callable[[PaperResult], tuple[float | None, str, str]]
) -> list[Spot]:
    """The paper's rows of a table, at the true counts of parameters of their presets.

    shown: gives the number that is drawn, a note on it, and what is added to the source.
    """
    spots = []
    for name in _presets_of(anchor):
        paper = get(name).paper
        value, note, kind = (None, "", "") if paper is None else shown(paper)
        size = experiment_parameter_counts(get(name)).model
        if size is None and paper is not None and paper.parameters is not None:
            size, _ = printed_count(paper.parameters)
        if value is not None and size is not None:
            spots.append(Spot(PAPER + kind, _short(name), size, value, note=note))
    return spots


def _presets_of(anchor: str) -> tuple[str, ...]:
    return next(table.presets for table in TABLES if table.anchor == anchor)


def our_spots(
    groups: Sequence[Group], kind: str, shown: Callable[[Group], tuple[Summary | None, str]]
) -> list[Spot]:
    """Our rows of a kind of task, in the paper's protocol and beyond it.

    shown: gives the score that is drawn, and what is added to the source.
    """
    spots = []
    for group in groups:
        of_task = group.experiment.task.kind == kind
        further = group.name in BEYOND.presets
        known = further or group.name in ROWS
        size = summarise(run.outcome.parameters for run in group.finished if run.outcome)
        if not (of_task and known and group.is_preset and size is not None):
            continue
        found, measure = shown(group)
        if found is not None:
            source = FURTHER if further else OURS + measure
            note = f"{found.count} seed{'s' if found.count > 1 else ''}"
            spots.append(
                Spot(source, _short(group.name), size.mean, found.mean, found.spread, note)
            )
    return spots


def _short(name: str) -> str:
    """A preset's name as a label in a chart."""
    if name in BEYOND.presets:
        return name
    model = get(name).model
    rank = getattr(model.matrix, "rank", None)
    words = model_name(model).replace("Low-rank plus diag.", "LRD").replace("Low-rank", "LR")
    words = words.replace("Baseline ", "")
    tied = " tied" if getattr(model.matrix, "tied", False) else ""
    dropout = " dropout" if model.dropout_state else ""
    return f"{words} {model.size}" + (f"/{rank}" if rank else "") + tied + dropout
