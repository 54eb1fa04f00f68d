"""The page's charts as Vega-Lite specifications; colours come from the page's own style."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from passnet.config import METRICS
from passnet.report.curves import AUTHOR, Curve, above_zero, spans_decades, thinned
from passnet.report.errors import ReportError
from passnet.report.leading import LOOKS, Leading

_DECADES = "format(datum.value, datum.value < 1e-3 ? '~e' : '~g')"
_THOUSANDS = "datum.value == 0 ? '0' : format(datum.value, '~s')"
POINTS = 240
SERIES_COLOURS = 13
HEIGHT = 260


def altair() -> Any:
    """The module that writes charts, or one sentence how to get it."""
    try:
        import altair as module
        import jinja2
        import vl_convert
    except ImportError as error:
        raise ReportError(
            f"the page needs the package {error.name}: run pip install '.[report]' in passnet's "
            "folder"
        ) from error
    del jinja2, vl_convert
    return module


def curves_chart(
    curves: Sequence[Curve],
    metric: str,
    *,
    unit: str = "update",
    author: Sequence[tuple[float, float]] = (),
    mark: float | None = None,
    places: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Scores over updates or epochs, the author's curve dashed above ours, a dotted line at `mark`.

    The vertical axis is logarithmic where values span decades, those of the first twentieth of each
    curve aside; else it leaves out what only that twentieth reaches, and the worst fiftieth of all
    points. A click on the legend brings a series forward. `places` are numbers of the colours of
    some series, where charts beside each other share them.
    """
    alt = altair()
    percent = metric.startswith("accuracy")
    counts = Counter(curve.series for curve in curves)
    # A series of few runs is drawn over those of many, which would hide it.
    ordered = sorted(curves, key=lambda curve: -counts[curve.series])
    drawn = [(curve.series, curve.name, curve.points) for curve in ordered]
    drawn += [(AUTHOR, AUTHOR, author)] if author else []
    values = _later([points for _, _, points in drawn])
    log = not percent and spans_decades([*values, *([] if mark is None else [mark])])
    if log:
        drawn = [(series, name, above_zero(points)) for series, name, points in drawn]
    rows = [
        {
            "model": series,
            "run": name.removeprefix(f"{series}, "),
            unit: x,
            "score": rounded(100 * y if percent else y),
        }
        for series, name, points in drawn
        for x, y in thinned(points, POINTS)
    ]
    scale = _vertical(alt, [p for _, _, p in drawn], mark, log=log, percent=percent)
    series = [*counts, *([AUTHOR] if author else [])]
    chosen = alt.selection_point(name="series", fields=["model"], bind="legend")
    colour = alt.Color(
        "model:N",
        title=None,
        scale=alt.Scale(domain=series, range=colours(series, places)),
        legend=alt.Legend(orient="bottom", columns=1, labelLimit=0, symbolType="stroke"),
    )
    y = alt.Y("score:Q", title=axis_title(metric), **scale)
    x = alt.X(f"{unit}:Q", title=f"{unit}s", axis=alt.Axis(labelExpr=_THOUSANDS, labelSeparation=6))
    authors = alt.datum.model == AUTHOR
    lines = (
        alt.Chart()
        .mark_line(clip=True)
        .encode(
            x=x,
            y=y,
            color=colour,
            detail="run:N",
            strokeDash=alt.condition(authors, alt.value([5, 4]), alt.value([1, 0])),
            strokeWidth=alt.condition(authors, alt.value(2.4), alt.value(1.6)),
            opacity=alt.condition(chosen, alt.value(1), alt.value(0.15)),
        )
        .add_params(chosen)
    )
    near = alt.selection_point(
        name="near", on="pointerover", nearest=True, fields=["model", "run", unit], empty=False
    )
    dots = (
        alt.Chart()
        # Tooltips by field lose words where the nearest point is asked for; the whole row is safe.
        .mark_point(filled=True, size=55, clip=True, tooltip={"content": "data"})
        .encode(x=x, y=y, color=colour, opacity=alt.condition(near, alt.value(1), alt.value(0)))
        .add_params(near)
    )
    layers = [lines, dots]
    if mark is not None:
        at = alt.Data(values=[{"score": rounded(100 * mark if percent else mark)}])
        dotted = alt.Chart(at).mark_rule(strokeDash=[2, 3], strokeWidth=1.2)
        layers.append(dotted.encode(y=y, color=alt.value("var(--quiet)")))
    chart = alt.layer(*layers, data=alt.Data(values=rows)).properties(
        width="container", height=HEIGHT
    )
    return chart.to_dict()


def cuts_off(spec: dict[str, Any]) -> bool:
    """Whether some points of a chart of curves are beyond the ends of its vertical axis."""
    domain = spec["layer"][0]["encoding"]["y"]["scale"].get("domain")
    scores = [row["score"] for row in spec["data"]["values"]]
    return domain is not None and not all(domain[0] <= y <= domain[1] for y in scores)


def speed_chart(series: Sequence[Leading]) -> dict[str, Any]:
    """Milliseconds of a few contenders for each shape, on a logarithmic axis."""
    alt = altair()
    rows = [
        {
            "shape": "{}|n {}, d {}, T {}, B {}".format(*shape),
            "s": one.title,
            "ms": timing.milliseconds,
            "which": timing.contender,
        }
        for one in series
        for shape, timing in one.timings.items()
    ]
    titles = [one.title for one in series]
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    names = alt.Axis(labelExpr="split(datum.label, '|')", labelLimit=0, grid=True)
    legend = alt.Legend(orient="bottom", columns=1, labelLimit=0)

    def looks(range_: Sequence[str]) -> dict[str, Any]:
        return {"title": None, "scale": alt.Scale(domain=titles, range=range_), "legend": legend}

    tints = [f"var(--series-{LOOKS[title].colour})" for title in titles]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=95, opacity=1)
        .encode(
            x=alt.X("ms:Q", title="milliseconds", scale=alt.Scale(type="log")),
            y=alt.Y("shape:N", title=None, sort=shapes, axis=names),
            color=alt.Color("s:N", **looks(tints)),
            shape=alt.Shape("s:N", **looks([LOOKS[title].shape for title in titles])),
            tooltip=[
                alt.Tooltip("s:N", title="contender"),
                alt.Tooltip("which:N", title="run as"),
                alt.Tooltip("shape:N"),
                alt.Tooltip("ms:Q", title="milliseconds", format=".4~g"),
            ],
        )
        .properties(width="container", height=38 * len(shapes))
    )
    return chart.to_dict()


def axis_title(metric: str) -> str:
    """A metric's name and unit for an axis."""
    if metric.startswith("accuracy"):
        return "accuracy, %"
    unit = METRICS[metric].unit if metric in METRICS else ""
    name = metric.removesuffix("_percent").removesuffix("_nats").replace("_", " ")
    name = name.replace("mse", "MSE").replace(" distribution", "'s distribution")
    return f"{name}, {unit}" if unit else name


def _vertical(
    alt: Any,
    curves: Sequence[Sequence[tuple[float, float]]],
    mark: float | None,
    *,
    log: bool,
    percent: bool,
) -> dict[str, Any]:
    """Scale and axis for the scores of some curves."""
    marked = [] if mark is None else [mark]
    if log:
        values = [y for points in curves for _, y in points] + marked
        decades = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
        axis = alt.Axis(values=[10.0**k for k in decades], labelExpr=_DECADES)
        return {"scale": alt.Scale(type="log"), "axis": axis}
    later = sorted(_later(curves))
    few = math.ceil(len(later) / 50)
    later = (later[few:] if percent else later[: len(later) - few]) + marked
    times = 100 if percent else 1
    room = 0.04 * (max(later) - min(later)) or 0.1 * abs(later[0]) or 1.0
    low, high = times * (min(later) - room), times * (max(later) + room)
    high = min(high, 100) if percent else high
    return {"scale": alt.Scale(zero=False, nice=False, domain=[rounded(low), rounded(high)])}


def _later(curves: Sequence[Sequence[tuple[float, float]]]) -> list[float]:
    """What the curves reach after their first twentieth."""
    return [y for points in curves for _, y in points[len(points) // 20 :]]


def colours(series: Sequence[str], places: Mapping[str, int] | None = None) -> list[str]:
    """A colour of the page's style for each series, those with a place by that; what others made
    has none."""
    known = {name: place for place, name in enumerate(n for n in series if n != AUTHOR)}
    known |= places or {}
    return [
        "var(--ink)" if name == AUTHOR else f"var(--series-{known[name] % SERIES_COLOURS + 1})"
        for name in series
    ]


def rounded(value: float) -> float:
    """Enough digits to draw."""
    return float(f"{value:.5g}")
