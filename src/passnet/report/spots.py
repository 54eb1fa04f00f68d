"""The models of a chart of score against parameters: the paper's, ours, and those of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from passnet.config import PaperResult, printed_count
from passnet.experiments import get
from passnet.report.charts import PUBLISHED
from passnet.report.groups import Group, summarise
from passnet.report.paper import BEYOND, TABLES, model_name
from passnet.report.published import published

PAPER, OURS, FURTHER = "the paper", "passnet, the paper's protocol", "passnet, beyond the paper"


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
        for row in published()[task]
        if row.parameters is not None
    ]


def paper_spots(
    anchor: str, shown: Callable[[PaperResult], tuple[float | None, str]]
) -> list[Spot]:
    """The paper's rows of a table; `shown` gives the number that is drawn, and a note on it."""
    spots = []
    for name in _presets_of(anchor):
        paper = get(name).paper
        value, note = (None, "") if paper is None else shown(paper)
        if paper is not None and value is not None and paper.parameters is not None:
            size, _ = printed_count(paper.parameters)
            spots.append(Spot(PAPER, _short(name), size, value, note=note))
    return spots


def _presets_of(anchor: str) -> tuple[str, ...]:
    return next(table.presets for table in TABLES if table.anchor == anchor)


def our_spots(groups: Sequence[Group], kind: str, metric: str) -> list[Spot]:
    """Our rows of a kind of task, in the paper's protocol and beyond it."""
    spots = []
    for group in groups:
        of_task = group.experiment.task.kind == kind
        known = group.name in BEYOND.presets or any(group.name in t.presets for t in TABLES)
        found = group.summary(metric)
        size = summarise(run.outcome.parameters for run in group.finished if run.outcome)
        if of_task and known and group.is_preset and found is not None and size is not None:
            source = FURTHER if group.name in BEYOND.presets else OURS
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
