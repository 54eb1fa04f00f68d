"""The benchmark as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from passnet.bench.measure import Row
from passnet.config.errors import ConfigurationError


def draw(rows: Sequence[Row], path: Path) -> None:
    """Milliseconds of each contender, a panel for each case and pass, on logarithmic axes."""
    try:
        import altair
    except ImportError as error:
        raise ConfigurationError("--plot needs Altair: pip install 'passnet[report]'") from error
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
