"""One self-contained page with every table of the paper, our runs beside them, and charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from passnet import __version__
from passnet.experiments import DISCREPANCIES
from passnet.report import budget, charts, figures, numbers
from passnet.report.claims import CLAIMS, RULE, judged
from passnet.report.conclusions import CONCLUSIONS
from passnet.report.curves import author_repositories, author_source
from passnet.report.every_run import run_line
from passnet.report.groups import Group, group_runs
from passnet.report.leading import leading_table
from passnet.report.notes import TITLE, anchors_of, find_notes
from passnet.report.overview import all_runs, overview
from passnet.report.paper import BEYOND, ROWS, TABLES
from passnet.report.published import published
from passnet.report.read import Folder, find_runs
from passnet.report.rows import write_table
from passnet.report.speed import SpeedFile, read_speed
from passnet.report.speedup import speedups
from passnet.report.trials import trials
from passnet.report.write import write_whole


def write_page(
    folders: Iterable[Folder],
    out: Folder,
    *,
    benchmarks: Folder | None = None,
    warn: Callable[[str], None] | None = None,
) -> None:
    """Write the page of the runs in and below `folders` to the file `out`, whole or not at all.

    Rows of the paper that were not run say so. `benchmarks` is a folder of timings. A damaged run
    is an error or, with `warn`, left out and told to it.
    """
    write_whole(out, render_page(folders, benchmarks=benchmarks, warn=warn))


def render_page(
    folders: Iterable[Folder],
    *,
    benchmarks: Folder | None = None,
    warn: Callable[[str], None] | None = None,
) -> str:
    """The page as text."""
    charts.altair()
    import jinja2

    places = list(folders)
    groups = group_runs(find_runs(places, warn=warn))
    notes = find_notes(places)
    about = anchors_of(notes)
    speed = [] if benchmarks is None else read_speed(benchmarks)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    shown = _figures(groups, speed)
    return environment.from_string(_resource("page.html")).render(
        version=__version__,
        style=_resource("page.css"),
        script=_resource("page.js"),
        library=_library(),
        overview=overview(groups),
        claims=judged(CONCLUSIONS, groups),
        claims_title=CLAIMS,
        rule=RULE,
        tables=[write_table(table, groups, about) for table in TABLES],
        beyond=write_table(BEYOND, groups, about),
        notes=notes,
        notes_title=TITLE,
        about=about,
        figures=shown,
        specs=_safe_json({f.anchor: f.spec for fs in shown.values() for f in fs if f.spec}),
        others=trials(group for group in groups if not _has_row(group)),
        every_run=[run_line(run, group) for group in groups for run in all_runs(group)],
        repeated=[run.place for group in groups for run in group.repeated],
        speed=speed,
        leading=leading_table,
        speedups=speedups(speed),
        discrepancies=DISCREPANCIES,
        published=published(),
        source=author_source(),
        repositories=author_repositories(),
        score=numbers.score,
        count=numbers.count,
    )


def _figures(
    groups: Sequence[Group], speed: Sequence[SpeedFile]
) -> dict[str, list[figures.Figure]]:
    return {
        "table-1": [budget.digits_budget(groups)],
        "table-2": [budget.characters_budget(groups), *figures.character_figures(groups)],
        "figure-2": figures.figure_two(groups),
        "highway": figures.highway_figures(groups),
        "beyond": figures.other_figures(
            [g for g in groups if g.is_preset and g.name in BEYOND.presets]
        ),
        "speed": [figures.speed_figure(k, file) for k, file in enumerate(speed)],
    }


def _has_row(group: Group) -> bool:
    return group.is_preset and group.name in (*ROWS, *BEYOND.presets)


def _resource(name: str) -> str:
    return (resources.files("passnet.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that no longer needs a network."""
    import vl_convert

    version = ".".join(charts.altair().SCHEMA_VERSION.split(".")[:2])
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return bundle.replace("</script", "<\\/script")


def _safe_json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
