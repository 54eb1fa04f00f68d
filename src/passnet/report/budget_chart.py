"""A chart of scores against parameters, each point with a name or a number beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from passnet.report.charts import altair, axis_title, rounded
from passnet.report.labels import GAP, near, place_labels
from passnet.report.spots import (
    CONVERTED,
    FURTHER,
    MACRO,
    MICRO,
    OURS,
    PAPER,
    PUBLISHED,
    Spot,
)

HEIGHT = 500
# The widths of a chart that its labels have to suit: numbers on a phone or tablet; on wider screens
# names, where there is room for them.
_WIDTHS = {"numbers": (255, 290, 400, 600, 840), "names": (840, 900, 960, 1040, 1130, 1250, 1400)}
_HIDDEN = {"numbers": "width >= 840", "names": "width < 840"}


@dataclass(frozen=True)
class _Look:
    """How the points of a source look."""

    shape: str
    tint: str
    hollow: bool = False


_THEIRS, _PAPERS, _OURS = "var(--others)", "var(--series-1)", "var(--series-2)"
_LOOKS = {
    PUBLISHED: _Look("circle", _THEIRS),
    CONVERTED: _Look("circle", _THEIRS, hollow=True),
    PAPER: _Look("square", _PAPERS, hollow=True),
    PAPER + MICRO: _Look("square", _PAPERS, hollow=True),
    PAPER + MACRO: _Look("diamond", _PAPERS, hollow=True),
    OURS: _Look("square", _OURS),
    OURS + MICRO: _Look("square", _OURS),
    OURS + MACRO: _Look("diamond", _OURS),
    FURTHER: _Look("triangle-up", "var(--series-3)"),
}


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
    title = f"{axis_title(metric).replace(' micro', '')}, {best}"
    ends = [rounded(scale * end) for end in _scores(spots)]
    axis = {"title": title, "scale": alt.Scale(domain=ends, nice=False, zero=False)}
    looked = [_LOOKS[source] for source in sources]
    tints = [look.tint for look in looked]
    base = alt.Chart().encode(
        x=x,
        opacity=alt.condition(chosen, alt.value(1), alt.value(0.12)),
    )
    fills = ["transparent" if look.hollow else look.tint for look in looked]
    # The paper's are larger and hollow, so that one of ours at the same place is seen in it.
    legend = alt.Legend(orient="bottom", columns=1, labelLimit=0)

    def looks(range_: list[str]) -> dict[str, Any]:
        scale = alt.Scale(domain=sources, range=range_)
        return {"title": None, "scale": scale, "legend": legend}

    points = base.mark_point(strokeWidth=1.8).encode(
        y=alt.Y("y:Q", **axis),
        shape=alt.Shape("s:N", **looks([look.shape for look in looked])),
        stroke=alt.Stroke("s:N", **looks(tints)),
        fill=alt.Fill("s:N", **looks(fills)),
        size=alt.condition(alt.datum.papers, alt.value(150), alt.value(60)),
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


def still(spec: dict[str, Any], width: int) -> dict[str, Any]:
    """The chart at one width and without the numbers, for where no list explains them."""
    rows = [
        {key: value for key, value in row.items() if key not in _WIDTHS or _is_name(value)}
        for row in spec["data"]["values"]
    ]
    return spec | {"data": {"values": rows}, "width": width}


def _is_name(label: dict[str, Any]) -> bool:
    return not label["text"].isdigit()


def _names(alt: Any, base: Any, axis: dict[str, Any]) -> list[Any]:
    """Texts on either side of their points, those for the chart's width; a line leads to a far
    one."""
    layers = []
    for kind, hidden in _HIDDEN.items():
        for side, sign in (("left", -1), ("right", 1)):
            placed = base.transform_filter(
                f"datum.{kind} && datum.{kind}.side == '{side}'"
            ).transform_calculate(at=f"datum.{kind}.y", t=f"datum.{kind}.text")
            layers += [
                placed.transform_filter(f"datum.{kind}.apart")
                .mark_rule(
                    strokeWidth={"expr": f"{hidden} ? 0 : 0.8"},
                    x2Offset=sign * GAP,
                    strokeOpacity=0.7,
                )
                .encode(y=alt.Y("y:Q", **axis), y2="at:Q", x2="p:Q"),
                placed.mark_text(
                    align="right" if side == "left" else "left",
                    dx=sign * GAP,
                    baseline="middle",
                    fontSize={"expr": f"{hidden} ? 0 : 10"},
                ).encode(y=alt.Y("at:Q", **axis), text="t:N"),
            ]
    return layers


def _rows(spots: Sequence[Spot], scale: float) -> list[dict[str, Any]]:
    """What the chart knows of each spot."""
    places, numbers = _places(spots), numbered(spots)
    ours = {spot.model for spot in spots if spot.source.startswith(OURS)}
    together = near(places, min(_WIDTHS["numbers"]))
    short = [(str(k),) for k in numbers]
    # A model of the paper's that we ran is named at our point.
    named = [
        texts if spot.source.startswith(PAPER) and spot.model in ours else (spot.model, *texts)
        for spot, texts in zip(spots, short, strict=True)
    ]
    labels = {
        kind: place_labels(places, short if kind == "numbers" else named, widths, HEIGHT)
        for kind, widths in _WIDTHS.items()
    }
    low, high = _scores(spots)
    pixel = scale * (high - low) / HEIGHT
    rows = []
    for k, spot in enumerate(spots):
        value, spread = scale * spot.value, scale * (spot.spread or 0)
        others = [f"{numbers[n]} {spots[n].model} ({spots[n].source})" for n in together[k]]
        row = {
            "s": spot.source,
            "c": _LOOKS[spot.source].tint,
            "m": spot.model,
            "papers": spot.source.startswith(PAPER),
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
                at = value + pixel * label.rise
                row[kind] = {"y": at, "text": label.text, "side": side, "apart": label.apart}
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


def numbered(spots: Sequence[Spot]) -> list[int]:
    """A number for each spot, from the smallest model on."""
    order = sorted(range(len(spots)), key=lambda k: (spots[k].parameters, spots[k].value))
    places = {k: number for number, k in enumerate(order, start=1)}
    return [places[k] for k in range(len(spots))]
