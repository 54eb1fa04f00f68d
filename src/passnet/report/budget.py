"""Scores against parameters: our runs, the paper's rows, and what others published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from passnet.config import printed_count
from passnet.experiments import get
from passnet.report.charts import PUBLISHED, altair, axis_title, colours, rounded
from passnet.report.figures import Figure
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


def digits_budget(groups: Sequence[Group]) -> Figure:
    """Accuracy on permuted MNIST against parameters."""
    spots = _published_spots("sequential permuted MNIST")
    for name in _table("table-1"):
        paper = get(name).paper
        if paper is not None and paper.value is not None and paper.parameters is not None:
            size, _ = printed_count(paper.parameters)
            spots.append(
                Spot(PAPER, _short(name), size, paper.value, note="test accuracy, table 1")
            )
    spots += _our_spots(groups, "sequential_mnist", "accuracy")
    return Figure(
        "budget-digits",
        "Accuracy against parameters",
        "Permuted MNIST, test accuracy. Bars are the spread of seeds. On 10 000 test digits the "
        "standard error of one run is about 0.2 points, so smaller gaps between single runs mean "
        "nothing; permutations differ between papers.",
        budget_chart(spots, "accuracy", best="up is better"),
    )


def characters_budget(groups: Sequence[Group]) -> Figure:
    """Bits per character on Penn Treebank against parameters."""
    spots = _published_spots("character-level Penn Treebank")
    for name in _table("table-2"):
        paper = get(name).paper
        if paper is not None and paper.value is not None and paper.parameters is not None:
            size, _ = printed_count(paper.parameters)
            how = "macro" if paper.metric.endswith("macro") else "micro"
            note = f"log2 of the printed {how} perplexity"
            spots.append(Spot(PAPER, _short(name), size, math.log2(paper.value), note=note))
    spots += _our_spots(groups, "character", "bits_per_character_micro")
    return Figure(
        "budget-characters",
        "Bits per character against parameters",
        "Penn Treebank, test set. The paper's points are log2 of its printed perplexities, which "
        "for the GRUs average over sentences and start each sentence anew; the others are micro "
        "averages, and those of other tokenisations are not quite comparable.",
        budget_chart(spots, "bits_per_character_micro", best="down is better"),
    )


def budget_chart(spots: Sequence[Spot], metric: str, *, best: str) -> dict[str, Any]:
    """Score against parameters on a logarithmic axis, each model named."""
    alt = altair()
    percent = metric.startswith("accuracy")
    scale = 100 if percent else 1
    rows = [
        {
            "s": spot.source,
            "m": spot.model,
            "p": spot.parameters,
            "y": rounded(scale * spot.value),
            "low": rounded(scale * (spot.value - (spot.spread or 0))),
            "high": rounded(scale * (spot.value + (spot.spread or 0))),
            "note": spot.note,
            "label": label,
        }
        for spot, label in zip(spots, _label_places(spots), strict=True)
    ]
    sources = list(dict.fromkeys(spot.source for spot in spots))
    chosen = alt.selection_point(name="source", fields=["s"], bind="legend")
    faded = alt.condition(chosen, alt.value(1), alt.value(0.12))
    x = alt.X(
        "p:Q",
        title="parameters",
        scale=alt.Scale(type="log", domain=_sizes(spots), nice=False),
        axis=alt.Axis(format="~s", labelOverlap=True),
    )
    title = f"{axis_title(metric)}, {best}"
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=False))
    scales = {
        "color": alt.Color(
            "s:N",
            title=None,
            scale=alt.Scale(domain=sources, range=colours(sources)),
            legend=alt.Legend(orient="bottom", columns=1, labelLimit=0),
        ),
        "opacity": faded,
    }
    base = alt.Chart().encode(x=x, **scales)
    shapes = ["circle", "diamond", "square", "triangle-up"]
    points = base.mark_point(filled=True, size=80).encode(
        y=y,
        shape=alt.Shape("s:N", title=None, scale=alt.Scale(domain=sources, range=shapes)),
        tooltip=[
            alt.Tooltip("m:N", title="model"),
            alt.Tooltip("s:N", title="from"),
            alt.Tooltip("p:Q", title="parameters", format=",~r"),
            alt.Tooltip("y:Q", title=metric, format=".4~g"),
            alt.Tooltip("note:N", title="note"),
        ],
    )
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    names = (
        base.transform_filter("isValid(datum.label)")
        .transform_calculate(label=f"{scale} * datum.label")
        # There is room for names beside the points on a wide screen only.
        .mark_text(align="left", dx=7, fontSize={"expr": "width < 560 ? 0 : 10"})
        .encode(y=alt.Y("label:Q", title=title), text="m:N")
    )
    chart = (
        alt.layer(bars, points.add_params(chosen), names, data=alt.Data(values=rows))
        .properties(width="container", height=380)
        .resolve_legend(color="shared")
    )
    return chart.to_dict()


def _sizes(spots: Sequence[Spot]) -> list[float]:
    return [min(s.parameters for s in spots) / 1.25, max(s.parameters for s in spots) * 1.6]


def _label_places(spots: Sequence[Spot]) -> list[float | None]:
    """Where each name can stand beside its point without touching another, as a score; None where
    there is no room. Reckoned for a wide chart; the last spots choose first."""
    width, height, line, letter = 1100.0, 380.0, 11.0, 5.6
    left, right = (math.log(size) for size in _sizes(spots))
    low, high = min(s.value for s in spots), max(s.value for s in spots)
    unit = (high - low or 1.0) / height
    taken = []
    for spot in spots:
        x = (math.log(spot.parameters) - left) / (right - left) * width
        y = spot.value / unit
        taken.append((x - 5, x + 5, y - 4, y + 4))
    places: list[float | None] = [None] * len(spots)
    for number in reversed(range(len(spots))):
        spot = spots[number]
        x = (math.log(spot.parameters) - left) / (right - left) * width + 7
        for shift in (0, 6, -6, 10, -10, 15, -15):
            y = spot.value / unit + shift
            box = (x, x + letter * len(spot.model), y - line / 2, y + line / 2)
            if not any(_touch(box, other) for other in taken):
                taken.append(box)
                places[number] = y * unit
                break
    return places


def _touch(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
    return not apart


def _table(anchor: str) -> tuple[str, ...]:
    return next(table.presets for table in TABLES if table.anchor == anchor)


def _published_spots(task: str) -> list[Spot]:
    return [
        Spot(PUBLISHED, row.model, row.parameters, row.value, note=row.note)
        for row in published()[task]
        if row.parameters is not None
    ]


def _our_spots(groups: Sequence[Group], kind: str, metric: str) -> list[Spot]:
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
    return f"{words} {model.size}" + (f"/{rank}" if rank else "") + tied
