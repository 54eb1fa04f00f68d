"""Scores against parameters: our runs, the paper's rows, and what others published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from passnet.config import PaperResult
from passnet.report.charts import altair, axis_title, colours, rounded
from passnet.report.figures import Figure
from passnet.report.groups import Group
from passnet.report.labels import GAP, near, place_labels
from passnet.report.numbers import count, score
from passnet.report.spots import PAPER, Spot, our_spots, paper_spots, published_spots

HEIGHT, WIDE = 440, 840
# What names and what numbers have to suit: charts on a screen, and on a phone or tablet.
_WIDTHS = {"wide": (840, 960, 1100, 1250, 1400), "narrow": (255, 290, 400, 600, 840)}
_COUNTS = (
    "Parameters: the paper's points stand at its printed counts, ours at true ones, of every "
    "trainable number, and those of others where their sources put them. The list below names the "
    "points by number, from the smallest model on."
)


def digits_budget(groups: Sequence[Group]) -> Figure:
    """Accuracy on permuted MNIST against parameters."""
    spots = [
        *published_spots("sequential permuted MNIST"),
        *paper_spots("table-1", lambda paper: (paper.value, "test accuracy, table 1")),
        *our_spots(groups, "sequential_mnist", "accuracy"),
    ]
    return Figure(
        "budget-digits",
        "Accuracy against parameters",
        "Permuted MNIST, test accuracy. Bars are the spread of seeds. On 10 000 test digits the "
        "standard error of one run is about 0.2 points, so smaller gaps between single runs mean "
        f"nothing; permutations differ between papers. {_COUNTS}",
        budget_chart(spots, "accuracy", best="up is better"),
        _listed(spots, "accuracy"),
    )


def characters_budget(groups: Sequence[Group]) -> Figure:
    """Bits per character on Penn Treebank against parameters."""
    spots = [
        *published_spots("character-level Penn Treebank"),
        *paper_spots("table-2", _bits),
        *our_spots(groups, "character", "bits_per_character_micro"),
    ]
    return Figure(
        "budget-characters",
        "Bits per character against parameters",
        "Penn Treebank, test set. The paper's points are log2 of its printed perplexities, which "
        "for the GRUs average over sentences and start each sentence anew; the others are micro "
        f"averages, and those of other tokenisations are not quite comparable. {_COUNTS}",
        budget_chart(spots, "bits_per_character_micro", best="down is better"),
        _listed(spots, "bits_per_character_micro"),
    )


def budget_chart(spots: Sequence[Spot], metric: str, *, best: str) -> dict[str, Any]:
    """Score against parameters on a logarithmic axis, each model named or numbered."""
    alt = altair()
    scale = 100 if metric.startswith("accuracy") else 1
    sources = list(dict.fromkeys(spot.source for spot in spots))
    chosen = alt.selection_point(name="source", fields=["s"], bind="legend")
    x = alt.X(
        "p:Q",
        title="parameters",
        scale=alt.Scale(type="log", domain=_sizes(spots), nice=False),
        axis=alt.Axis(format="~s", labelOverlap=True),
    )
    title = f"{axis_title(metric)}, {best}"
    ends = [rounded(scale * end) for end in _scores(spots)]
    axis = {"title": title, "scale": alt.Scale(domain=ends, nice=False, zero=False)}
    tints = colours(sources)
    base = alt.Chart().encode(
        x=x,
        opacity=alt.condition(chosen, alt.value(1), alt.value(0.12)),
    )
    shapes = ["circle", "diamond", "square", "triangle-up"]
    # The paper's are larger and hollow, so that one of ours at the same place is seen in it.
    fills = ["transparent" if s == PAPER else t for s, t in zip(sources, tints, strict=True)]
    legend = alt.Legend(orient="bottom", columns=1, labelLimit=0)

    def looks(range_: list[str]) -> dict[str, Any]:
        scale = alt.Scale(domain=sources, range=range_)
        return {"title": None, "scale": scale, "legend": legend}

    points = base.mark_point(strokeWidth=1.8).encode(
        y=alt.Y("y:Q", **axis),
        shape=alt.Shape("s:N", **looks(shapes)),
        stroke=alt.Stroke("s:N", **looks(tints)),
        fill=alt.Fill("s:N", **looks(fills)),
        size=alt.condition(alt.datum.s == PAPER, alt.value(150), alt.value(55)),
        tooltip=[
            alt.Tooltip("m:N", title="model"),
            alt.Tooltip("s:N", title="from"),
            alt.Tooltip("k:Q", title="number"),
            alt.Tooltip("p:Q", title="parameters", format=",~r"),
            alt.Tooltip("y:Q", title=metric, format=".4~g"),
            alt.Tooltip("note:N", title="note"),
            alt.Tooltip("near:N", title="at the same place"),
        ],
    )
    tinted = base.encode(color=alt.Color("c:N", scale=None))
    bars = tinted.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", **axis), y2="high:Q")
    layers = [bars, points.add_params(chosen), *_names(alt, tinted, axis)]
    chart = alt.layer(*layers, data=alt.Data(values=_rows(spots, scale))).properties(
        width="container", height=HEIGHT
    )
    return chart.to_dict()


def _names(alt: Any, base: Any, axis: dict[str, Any]) -> list[Any]:
    """Texts on either side of their points: names on a wide screen, numbers on a narrow one."""
    layers = []
    for kind, sign in (("wide", "<"), ("narrow", ">=")):
        for side in ("left", "right"):
            size = {"expr": f"width {sign} {WIDE} ? 0 : 10"}
            align, dx = ("right", -GAP) if side == "left" else ("left", GAP)
            layers.append(
                base.transform_filter(f"datum.{kind} && datum.{kind}.side == '{side}'")
                .transform_calculate(at=f"datum.{kind}.y", t=f"datum.{kind}.text")
                .mark_text(align=align, dx=dx, baseline="middle", fontSize=size)
                .encode(y=alt.Y("at:Q", **axis), text="t:N")
            )
    return layers


def _rows(spots: Sequence[Spot], scale: float) -> list[dict[str, Any]]:
    """What the chart knows of each spot."""
    places, numbers = _places(spots), _numbered(spots)
    sources = list(dict.fromkeys(spot.source for spot in spots))
    tints = dict(zip(sources, colours(sources), strict=True))
    together = near(places, min(_WIDTHS["narrow"]))
    texts = {
        "wide": [(spot.model, str(k)) for spot, k in zip(spots, numbers, strict=True)],
        "narrow": [(str(k),) for k in numbers],
    }
    labels = {kind: place_labels(places, texts[kind], _WIDTHS[kind]) for kind in _WIDTHS}
    low, high = _scores(spots)
    pixel = scale * (high - low) / HEIGHT
    rows = []
    for k, spot in enumerate(spots):
        value, spread = scale * spot.value, scale * (spot.spread or 0)
        others = [f"{numbers[n]} {spots[n].model} ({spots[n].source})" for n in together[k]]
        row = {
            "s": spot.source,
            "c": tints[spot.source],
            "m": spot.model,
            "k": numbers[k],
            "p": spot.parameters,
        }
        row |= {
            "y": rounded(value),
            "low": rounded(value - spread),
            "high": rounded(value + spread),
        }
        row |= {"note": spot.note, "near": "; ".join(others) or "nothing else"}
        for kind in _WIDTHS:
            label = labels[kind][k]
            if label is not None:
                side = "left" if label.left else "right"
                row[kind] = {"y": value + pixel * label.rise, "text": label.text, "side": side}
        rows.append(row)
    return rows


def _places(spots: Sequence[Spot]) -> list[tuple[float, float]]:
    """Each spot as a share of the chart's width, and its height in pixels."""
    left, right = (math.log(size) for size in _sizes(spots))
    low, high = _scores(spots)
    return [
        (
            (math.log(spot.parameters) - left) / (right - left),
            (spot.value - low) / (high - low) * HEIGHT,
        )
        for spot in spots
    ]


def _sizes(spots: Sequence[Spot]) -> list[float]:
    return [min(s.parameters for s in spots) / 1.25, max(s.parameters for s in spots) * 1.6]


def _scores(spots: Sequence[Spot]) -> tuple[float, float]:
    """The ends of the vertical axis: a little beyond all scores and their spreads."""
    low = min(spot.value - (spot.spread or 0) for spot in spots)
    high = max(spot.value + (spot.spread or 0) for spot in spots)
    room = 0.04 * (high - low) or 0.1 * abs(low) or 1.0
    return low - room, high + room


def _numbered(spots: Sequence[Spot]) -> list[int]:
    """A number for each spot, from the smallest model on."""
    order = sorted(range(len(spots)), key=lambda k: (spots[k].parameters, spots[k].value))
    places = {k: number for number, k in enumerate(order, start=1)}
    return [places[k] for k in range(len(spots))]


def _listed(spots: Sequence[Spot], metric: str) -> tuple[str, ...]:
    """The spots in the order of their numbers."""
    pairs = sorted(zip(_numbered(spots), spots, strict=True), key=lambda pair: pair[0])
    return tuple(
        f"{spot.model}, {spot.source}: {count(spot.parameters)}, "
        + score(metric, spot.value).replace(" %", "\u00a0%")
        for _, spot in pairs
    )


def _bits(paper: PaperResult) -> tuple[float | None, str]:
    """Bits per character of a printed perplexity."""
    how = "macro" if paper.metric.endswith("macro") else "micro"
    value = None if paper.value is None else math.log2(paper.value)
    return value, f"log2 of the printed {how} perplexity"
