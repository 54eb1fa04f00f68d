"""The benchmark as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from passnet.bench.measure import Row
from passnet.config.errors import ConfigurationError

ENDINGS = (".svg", ".png", ".pdf", ".html")


def check_plot(path: Path) -> None:
    """Raise where no picture could be drawn into such a file."""
    if path.suffix not in ENDINGS:
        raise ConfigurationError(
            f"--plot {path}: expected a file that ends in {', '.join(ENDINGS[:-1])} or "
            f"{ENDINGS[-1]}"
        )
    if any(find_spec(name) is None for name in ("altair", "vl_convert")):
        raise ConfigurationError(
            "--plot needs Altair and vl-convert: pip install 'passnet[report]'"
        )


def draw(rows: Sequence[Row], path: Path) -> None:
    """Milliseconds of each contender, a panel for each case and pass, on logarithmic axes."""
    import altair

    data = [
        {
            "case": f"{row.shape} n={row.n} d={row.d} T={row.T} B={row.B}, {row.pass_}",
            "contender": row.contender,
            "milliseconds": row.milliseconds,
            "ours": row.contender.startswith("passnet"),
        }
        for row in rows
    ]
    chart = (
        altair.Chart(altair.Data(values=data))
        .mark_bar()
        .encode(
            x=altair.X("milliseconds:Q", scale=altair.Scale(type="log")),
            y=altair.Y("contender:N", sort="x", title=None),
            color=altair.Color("ours:N", legend=None),
            tooltip=["contender:N", "milliseconds:Q"],
        )
        .properties(width=320)
        .facet(facet=altair.Facet("case:N", title=None), columns=2)
        .resolve_scale(x="independent", y="independent")
    )
    chart.save(str(path))
