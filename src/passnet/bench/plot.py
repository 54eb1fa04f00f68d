"""The benchmark as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from passnet.config.contender import OURS, read_name
from passnet.config.errors import ConfigurationError

if TYPE_CHECKING:
    from passnet.bench.measure import Row

ENDINGS = (".svg", ".png", ".pdf", ".html")
WHOSE, COLOURS = (OURS, "others"), ("#c2410c", "#475569")


def check_plot(path: Path) -> None:
    """Raise where no picture could be drawn into such a file."""
    if path.suffix not in ENDINGS:
        raise ConfigurationError(
            f"--plot {path}: expected a file that ends in {', '.join(ENDINGS[:-1])} or "
            f"{ENDINGS[-1]}"
        )
    if any(find_spec(name) is None for name in ("altair", "vl_convert")):
        raise ConfigurationError(
            "--plot needs Altair and vl-convert: run pip install '.[report]' in passnet's folder"
        )


def draw(rows: Sequence[Row], path: Path) -> None:
    """Milliseconds of each contender, a panel for each case and pass, the fastest on top.

    A logarithm has no zero for bars to begin at: these are points, with their numbers beside them.
    """
    import altair

    data = [
        {
            "case": f"{row.shape} n={row.n} d={row.d} T={row.T} B={row.B}, {row.pass_}",
            "contender": row.contender,
            "milliseconds": row.milliseconds,
            "whose": WHOSE[0] if read_name(row.contender).ours else WHOSE[1],
        }
        for row in rows
    ]
    cases = list(dict.fromkeys(row["case"] for row in data))
    every = altair.Chart(altair.Data(values=data)).encode(
        x=altair.X("milliseconds:Q", scale=altair.Scale(type="log", padding=30)),
        y=altair.Y("contender:N", sort=altair.EncodingSortField("milliseconds"), title=None),
        color=altair.Color(
            "whose:N", title=None, scale=altair.Scale(range=list(COLOURS), domain=list(WHOSE))
        ),
        tooltip=["contender:N", "milliseconds:Q"],
    )
    points = every.mark_circle(size=60, opacity=1)
    numbers = every.mark_text(align="left", dx=7).encode(
        text=altair.Text("milliseconds:Q", format=".3~g")
    )
    panels = altair.layer(points, numbers).properties(width=360)
    chart = (
        panels.facet(facet=altair.Facet("case:N", title=None, sort=cases), columns=2)
        .resolve_scale(x="independent", y="independent")
        .configure_legend(orient="top")
    )
    chart.save(str(path))
