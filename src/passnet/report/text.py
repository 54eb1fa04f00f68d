"""The report for a terminal: one table, then the curves as text; or the same as JSON."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from passnet.config import METRICS
from passnet.config.run_folder import EXPERIMENT_FILE
from passnet.report import numbers
from passnet.report.curves import group_curves
from passnet.report.describe import mean_seconds, no_score, seeds_text, updates_text
from passnet.report.errors import NothingThere
from passnet.report.groups import Group, group_runs
from passnet.report.paper import compare, paper_score
from passnet.report.plot import text_plot
from passnet.report.read import Folder, Run, find_runs

_HEADER = (
    "preset", "seeds", "metric", "ours", "paper", "chance", "parameters", "updates", "seconds",
    "device", "backend",
)  # fmt: skip


def text_report(
    folders: Iterable[Folder], *, json: bool = False, warn: Callable[[str], None] | None = None
) -> str:
    """The runs in and below the folders as a table and curves, or as one JSON document.

    Seeds of one experiment share a row: the mean of their test scores ± the sample standard
    deviation. A damaged run is an error or, with `warn`, left out and told to it; where nothing
    else is there, the text is empty and the JSON an empty list.
    """
    places, damaged = list(folders), []

    def tell(text: str) -> None:
        damaged.append(text)
        if warn is not None:
            warn(text)

    groups = group_runs(find_runs(places, warn=None if warn is None else tell))
    if not groups and not damaged:
        where = ", ".join(str(place) for place in places) or "no folder"
        raise NothingThere(
            f"no run was found in {where}: `passnet train NAME` makes one, a folder with an "
            f"{EXPERIMENT_FILE}"
        )
    if json:
        return json_module.dumps([_record(group) for group in groups], indent=2, allow_nan=False)
    if not groups:
        return ""
    parts = [_table([_row(group) for group in groups]), *_remarks(groups), *_plots(groups)]
    return "\n\n".join(parts)


def _row(group: Group) -> tuple[str, ...]:
    outcomes = [run.outcome for run in group.finished if run.outcome]
    parameters = {outcome.parameters for outcome in outcomes} or {
        run.facts.get("parameters") for run in group.runs
    }
    seconds = mean_seconds(group)
    return (
        _title(group),
        f"{seeds_text(group)} ({_seed_list(group.runs)})",
        group.metric,
        numbers.summary(group.metric, group.summary()),
        paper_score(group.experiment) if group.is_preset else numbers.ABSENT,
        numbers.score(group.metric, group.chance()),
        "/".join(numbers.ABSENT if n is None else str(n) for n in sorted(parameters, key=str)),
        updates_text(group),
        numbers.ABSENT if seconds is None else f"{seconds:.0f}",
        ", ".join(sorted({outcome.device for outcome in outcomes})) or numbers.ABSENT,
        ", ".join(sorted({outcome.backend for outcome in outcomes})) or numbers.ABSENT,
    )


def _title(group: Group) -> str:
    """The name and what was changed or, of many changes, where the run is."""
    return group.label if len(group.label) <= 70 else f"{group.name} in {group.runs[0].place}"


def _seed_list(runs: Sequence[Run]) -> str:
    return "seed " + " ".join(str(run.experiment.seed) for run in runs)


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [_HEADER, *rows]
    widths = [max(len(row[k]) for row in lines) for k in range(len(_HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in lines
    )


def _remarks(groups: Sequence[Group]) -> list[str]:
    lines = []
    for group in groups:
        # With other settings it is not the paper's row that was run.
        verdict = compare(group) if group.is_preset else None
        if verdict is not None:
            lines.append(f"{group.name}, beside the paper: {verdict.word}, {verdict.text}")
        if group.remarks:
            lines.append(f"{_title(group)}: {'; '.join(group.remarks)}")
        for run in group.failed:
            if run.outcome is not None and run.outcome.value is None:
                lines.append(f"{run.place}: failed, {no_score(run.outcome)}")
        for run in group.unfinished:
            total = run.experiment.updates
            bound = "" if total is None else f" of {total}"
            lines.append(f"{run.place}: unfinished at update {run.reached}{bound}")
        for run in group.repeated:
            value = None if run.outcome is None else run.outcome.value
            score = "" if value is None else f" ({numbers.score(group.metric, value)})"
            lines.append(
                f"{run.place}: seed {run.experiment.seed} is there already, left out{score}"
            )
    return ["\n".join(lines)] if lines else []


def _plots(groups: Sequence[Group]) -> list[str]:
    """One plot for each task and metric, with all its runs."""
    kinds: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        kinds.setdefault((group.name.partition("/")[0], _curve_metric(group)), []).append(group)
    plots = []
    for (_, metric), members in kinds.items():
        curves = group_curves(members, metric)
        if curves:
            unit = METRICS[metric].unit if metric in METRICS else ""
            title = f"validation {metric}" + (f" ({unit})" if unit else "")
            plots.append(text_plot(curves, title))
    return plots


def _curve_metric(group: Group) -> str:
    """The metric of the result where validation has it, else the one that selects."""
    known = {name for run in group.runs for point in run.evaluations for name in point.scores}
    return group.metric if group.metric in known else group.experiment.selection.metric


def _record(group: Group) -> dict[str, Any]:
    found, verdict, paper = group.summary(), compare(group), group.experiment.paper
    return {
        "preset": group.name,
        "changes": None if group.changes is None else list(group.changes),
        "protocol": group.experiment.protocol,
        "metric": group.metric,
        "mean": None if found is None else found.mean,
        "spread": None if found is None else found.spread,
        "seeds_finished": len(group.finished),
        "seeds_failed": len(group.failed),
        "seeds_unfinished": len(group.unfinished),
        "paper_value": None if paper is None else paper.value,
        "paper_relation": None if paper is None else paper.relation,
        "beside_the_paper": None if verdict is None else verdict.word,
        "chance": group.chance(),
        "runs": [_run_record(run, _curve_metric(group)) for run in group.runs],
        "repeated": [str(run.path) for run in group.repeated],
    }


def _run_record(run: Run, metric: str) -> dict[str, Any]:
    outcome = run.outcome
    result = {
        key: None if outcome is None else getattr(outcome, key)
        for key in (
            "value",
            "test",
            "validation",
            "parameters",
            "seconds",
            "device",
            "backend",
            "commit",
            "selected_update",
            "stopped",
            "recovered",
        )
    }
    return {
        "folder": str(run.path),
        "seed": run.experiment.seed,
        "finished": outcome is not None,
        "updates": run.reached,
        **result,
        "curve": {
            "metric": metric,
            "points": [[point.update, point.scores.get(metric)] for point in run.evaluations],
        },
    }
