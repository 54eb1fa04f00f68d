"""One self-contained page with every table of the paper, our runs beside them, and charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from passnet import __version__
from passnet.experiments import DISCREPANCIES
from passnet.report import budget, charts, figures, numbers
from passnet.report.curves import author_source
from passnet.report.describe import no_score
from passnet.report.groups import Group, group_runs
from passnet.report.paper import BEYOND, TABLES, compare
from passnet.report.published import published
from passnet.report.read import Folder, Run, find_runs
from passnet.report.rows import write_table
from passnet.report.speed import SpeedFile, read_speed
from passnet.report.trials import trials
from passnet.report.write import write_whole


@dataclass(frozen=True)
class Overview:
    """How much of the paper is reproduced."""

    rows: int
    run: int
    good: int
    short: tuple[str, ...]
    missing: tuple[str, ...]
    seeds: int
    hours: str


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

    runs = find_runs(folders, warn=warn)
    groups = group_runs(runs)
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
        overview=_overview(groups),
        tables=[write_table(table, groups) for table in TABLES],
        beyond=write_table(BEYOND, groups),
        figures=shown,
        specs=_safe_json({f.anchor: f.spec for fs in shown.values() for f in fs if f.spec}),
        others=trials(group for group in groups if not _has_row(group)),
        every_run=[_run_line(run, group) for group in groups for run in _all_runs(group)],
        repeated=[run.place for group in groups for run in group.repeated],
        speed=speed,
        discrepancies=DISCREPANCIES,
        published=published(),
        source=author_source(),
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
        "speed": [
            figures.Figure(
                f"speed-{k}",
                f"{file.title}: {file.tables[0].kind}",
                file.facts,
                charts.speed_chart(file.tables[0].timings),
            )
            for k, file in enumerate(speed)
            if file.tables
        ],
    }


def _overview(groups: Sequence[Group]) -> Overview:
    by_name = {group.name: group for group in groups if group.is_preset}
    rows = [name for table in TABLES for name in table.presets]
    done = [name for name in rows if name in by_name and by_name[name].finished]
    verdicts = {name: compare(by_name[name]) for name in done}
    outcomes = [run.outcome for group in groups for run in group.finished]
    return Overview(
        rows=len(rows),
        run=len(done),
        good=sum(verdict is not None and verdict.good for verdict in verdicts.values()),
        short=tuple(n for n, verdict in verdicts.items() if verdict and not verdict.good),
        missing=tuple(name for name in rows if name not in done),
        seeds=len(outcomes),
        hours=numbers.duration(sum(outcome.seconds for outcome in outcomes if outcome)),
    )


def _has_row(group: Group) -> bool:
    rows = {name for table in (*TABLES, BEYOND) for name in table.presets}
    return group.is_preset and group.name in rows


def _all_runs(group: Group) -> tuple[Run, ...]:
    return (*group.runs, *group.repeated)


def _run_line(run: Run, group: Group) -> dict[str, str]:
    outcome = run.outcome
    versions = run.facts.get("versions") or {}
    line = {
        "place": run.place,
        "label": group.label,
        "seed": str(run.experiment.seed),
        "torch": str(versions.get("torch") or numbers.ABSENT),
        "commit": str(run.facts.get("commit") or numbers.ABSENT)[:10],
    }
    if outcome is None:
        words = f"unfinished, update {numbers.whole(run.reached)}"
        rest = dict.fromkeys(("selected", "recovered", "time", "device"), numbers.ABSENT)
        return line | {"value": words, "stopped": numbers.ABSENT} | rest
    return line | {
        "value": no_score(outcome)
        if outcome.value is None
        else numbers.score(outcome.metric, outcome.value),
        "selected": numbers.whole(outcome.selected_update),
        "stopped": outcome.stopped or numbers.ABSENT,
        "recovered": str(outcome.recovered),
        "time": numbers.duration(outcome.seconds),
        "device": f"{outcome.device}, {outcome.backend}",
    }


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
