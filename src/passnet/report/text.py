"""The report for a terminal: one table, then the curves as text; or the same as JSON."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterable, Sequence

from passnet.config import METRICS
from passnet.config.run_folder import EXPERIMENT_FILE
from passnet.report import numbers
from passnet.report.alike import alike
from passnet.report.curves import group_curves
from passnet.report.describe import no_score
from passnet.report.errors import NothingThere
from passnet.report.groups import Group, group_runs
from passnet.report.paper import BEYOND, TABLES, compare
from passnet.report.plot import text_plot
from passnet.report.read import Folder, find_runs
from passnet.report.records import curve_metric, record
from passnet.report.text_tables import task_of, text_tables, title_of


def text_report(
    folders: Iterable[Folder],
    *,
    json: bool = False,
    trials: bool = False,
    warn: Callable[[str], None] | None = None,
) -> str:
    """The runs in and below the folders as tables and curves, or as one JSON document.

    Seeds of one experiment share a row: the mean of their test scores ± the sample standard
    deviation, or the median and the range of scores that differ by factors. Trials of a preset,
    runs with changed settings, are left out of tables and curves where the preset itself was run,
    unless `trials` asks for them; JSON has them always. A damaged run is an error or, with `warn`,
    left out and told to it; where nothing else is there, the text is empty and the JSON an empty
    list.
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
        return json_module.dumps([record(group) for group in groups], indent=2, allow_nan=False)
    if not groups:
        return ""
    shown = groups if trials else _without_trials(groups)
    parts = [*text_tables(shown), *_left_out(len(groups) - len(shown)), *_remarks(shown)]
    return "\n\n".join((*parts, *_plots(shown)))


def _without_trials(groups: Sequence[Group]) -> list[Group]:
    """All but the trials of presets that were run themselves."""
    presets = {group.name for group in groups if group.is_preset}
    return [group for group in groups if group.name not in presets or group.is_preset]


def _left_out(count: int) -> list[str]:
    what = "trial of a preset with changed settings is"
    what = what if count == 1 else "trials of presets with changed settings are"
    return [f"{count} {what} left out: --trials shows them too"] if count else []


def _remarks(groups: Sequence[Group]) -> list[str]:
    lines, said = [], {}
    for table in (*TABLES, BEYOND):
        shared = alike(table.presets, groups)
        said |= dict.fromkeys(table.presets, shared.remarks)
        lines += [f"{table.title}. {shared.sentence}"] if shared.sentence else []
    for group in groups:
        own = [text for text in group.remarks if text not in said.get(group.name, ())]
        # With other settings it is not the paper's row that was run.
        verdict = compare(group) if group.is_preset else None
        if verdict is not None:
            lines.append(f"{group.name}, beside the paper: {verdict.word}, {verdict.text}")
        if own:
            lines.append(f"{title_of(group)}: {'; '.join(own)}")
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
        kinds.setdefault((task_of(group), curve_metric(group)), []).append(group)
    plots = []
    for (_, metric), members in kinds.items():
        curves = group_curves(members, metric)
        if curves:
            unit = METRICS[metric].unit if metric in METRICS else ""
            title = f"validation {metric}" + (f" ({unit})" if unit else "")
            plots.append(text_plot(curves, title))
    return plots
