"""The pictures of a README: charts of the results as SVG files, which need no script to be seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from passnet.report.budget import digits_budget
from passnet.report.budget_chart import still
from passnet.report.charts import altair
from passnet.report.groups import Group
from passnet.report.read import read_text
from passnet.report.speed import SpeedFile
from passnet.report.speedup import CALLED, ON_A_CPU, Layer, Span, spans
from passnet.report.write import write_whole

Draw = Callable[[Sequence[Group], Sequence[SpeedFile]], dict[str, Any] | None]
_CONFIG = {
    "background": "white",
    # A reader's font may be wider than the one that the text was measured with.
    "padding": 24,
    "concat": {"spacing": 40},
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    "view": {"stroke": "transparent"},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "gridOpacity": 0.5,
        "tickCount": 8,
    },
    "legend": {"labelFontSize": 12},
    "title": {"anchor": "start", "fontSize": 13},
}


def speed_picture(groups: Sequence[Group], speed: Sequence[SpeedFile]) -> dict[str, Any] | None:
    """Bars of how many times as fast as torch.nn each layer is, on a GPU and on a CPU."""
    found = [span for span in spans(speed) if span.column in (CALLED, ON_A_CPU)]
    if not found:
        return None
    ends = [0.9 * min(1.0, *(span.low for span in found)), 1.8 * max(span.high for span in found)]
    sides = [[span for span in found if span.column == column] for column in (CALLED, ON_A_CPU)]
    return altair().hconcat(*(_bars(side, ends) for side in sides if side)).to_dict()


def _bars(found: Sequence[Span], ends: list[float]) -> Any:
    """From 1, which is as fast, to the lowest ratio of a layer; paler from there to the highest."""
    alt = altair()
    machines = ", ".join(sorted({machine for span in found for machine in span.machines}))
    rows = [
        {
            "layer": _named(span.layer),
            "from": 1,
            "low": round(span.low, 3),
            "high": round(span.high, 3),
            "words": str(span),
            "machines": machines,
        }
        for span in found
    ]
    ticks = [k * 10**power for power in (-1, 0, 1, 2) for k in (1, 2, 5)]
    scale = alt.Scale(type="log", domain=ends, nice=False)
    axis = alt.Axis(values=ticks, labelExpr="datum.value + 'x'", title="times as fast")
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("layer:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False))
    )
    bars = [
        base.mark_bar(height=13, color="var(--series-2)", opacity=opacity).encode(
            x=alt.X(f"{start}:Q", scale=scale, axis=axis), x2=f"{end}:Q"
        )
        for start, end, opacity in (("from", "low", 1), ("low", "high", 0.45))
    ]
    words = base.mark_text(align="left", dx=5, fontSize=12).encode(
        x=alt.X("high:Q", scale=scale, axis=axis), text="words:N"
    )
    return alt.layer(*bars, words).properties(width=300, height=alt.Step(22), title=machines)


def _named(layer: Layer) -> str:
    return f"{layer.kind} {layer.units}, rank {layer.rank}" + (" tied" if layer.tied else "")


def accuracy_picture(groups: Sequence[Group], speed: Sequence[SpeedFile]) -> dict[str, Any] | None:
    """Accuracy on permuted MNIST against parameters, beside what others published."""
    spec = digits_budget(groups).spec
    return None if spec is None else still(spec, 860)


PICTURES: dict[str, Draw] = {
    "docs/speed.svg": speed_picture,
    "docs/accuracy.svg": accuracy_picture,
}
"""What draws each file, named as a README in the folder above shows it."""


def write_pictures(readme: Path, groups: Sequence[Group], speed: Sequence[SpeedFile]) -> list[Path]:
    """Draw the pictures that a README shows, those of other data anew; returns what it drew."""
    old = _old(readme, groups, speed)
    for path, spec in old.items():
        write_whole(path, _svg(spec))
    return list(old)


def old_picture(readme: Path, groups: Sequence[Group], speed: Sequence[SpeedFile]) -> str | None:
    """One sentence about the first picture that is missing or was drawn of other data."""
    for path in _old(readme, groups, speed):
        return f"{path} is missing or shows other numbers than the files give; generate it again"
    return None


def _old(
    readme: Path, groups: Sequence[Group], speed: Sequence[SpeedFile]
) -> dict[Path, dict[str, Any]]:
    """What the pictures that a README shows should be drawn of, where they are not."""
    text, found = read_text(readme), {}
    for name, draw in PICTURES.items():
        spec = draw(groups, speed) if f"]({name})" in text else None
        path = readme.parent / name
        if spec is not None and not (path.is_file() and _mark(spec) in read_text(path)):
            found[path] = spec
    return found


def _svg(spec: dict[str, Any]) -> str:
    """The chart in the light colours of the page, with the mark of its data."""
    import vl_convert

    version = ".".join(altair().SCHEMA_VERSION.split(".")[:2])
    coloured = json.loads(_in_colours(json.dumps(spec | {"config": _CONFIG})))
    drawn = vl_convert.vegalite_to_svg(coloured, vl_version=version)
    return re.sub(r"(<svg\b[^>]*>)", rf"\1<desc>{_mark(spec)}</desc>", drawn, count=1) + "\n"


def _mark(spec: dict[str, Any]) -> str:
    """Names all data of a chart, wherever it stands in it."""
    return f"data {sha256(json.dumps(_data(spec)).encode()).hexdigest()}"


def _data(part: Any) -> list[Any]:
    if isinstance(part, list):
        return [found for each in part for found in _data(each)]
    if not isinstance(part, dict):
        return []
    own = [part["values"]] if isinstance(part.get("values"), list) else []
    return own + [found for each in part.values() for found in _data(each)]


def _in_colours(text: str) -> str:
    """A chart whose colours are those of the page's style on white."""
    style = (resources.files("passnet.report") / "templates" / "page.css").read_text("utf-8")
    tints: dict[str, str] = {}
    for name, tint in re.findall(r"(--[\w-]+): (#\w+);", style):
        tints.setdefault(name, tint)
    return re.sub(r"var\((--[\w-]+)\)", lambda match: tints[match[1]], text)
