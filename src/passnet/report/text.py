"""The report for a terminal: tables, curves and a summary; or the same as JSON."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterable, Sequence

from passnet.config.run_folder import EXPERIMENT_FILE
from passnet.report import numbers
from passnet.report.columns import wrapped
from passnet.report.curves import group_curves
from passnet.report.errors import NothingThere
from passnet.report.groups import SOLVED, Group, group_runs
from passnet.report.metric_words import metric_words
from passnet.report.overview import all_runs, overview, sentences
from passnet.report.paper import ROWS, TEST_DIGITS
from passnet.report.plot import text_plot
from passnet.report.read import Folder, find_runs
from passnet.report.records import curve_metric, record
from passnet.report.text_tables import Section, sections, text_table

_NARROWEST, _WIDEST = 40, 100
_LEGEND = (
    "passnet: the mean test score of the seeds ± their standard deviation, or the median of "
    "scores that differ by factors.",
    "verdict: that mean beside the paper's number. It matches if the two differ by no more than "
    "the standard deviation of the seeds, half of the paper's last digit or, for an accuracy, the "
    f"standard error of a test on {numbers.whole(TEST_DIGITS)} digits. A bound (<) is reached "
    "if the score of every seed is below it; partly reached if some are, or if a mean matches and "
    "some seeds failed. If the paper has no number for a memory task, it is solved "
    f"below {SOLVED:g} nats.",
)


def text_report(
    folders: Iterable[Folder],
    *,
    json: bool = False,
    trials: bool = False,
    width: int | None = None,
    warn: Callable[[str], None] | None = None,
) -> str:
    """The runs in and below the folders as tables and curves, or as one JSON document.

    Seeds of one experiment share a row: the mean of their test scores ± the sample standard
    deviation, or the median and the range of scores that differ by factors. Presets of a table
    with runs that have none themselves are rows too. Trials of a preset, runs with changed
    settings, are left out of tables and curves where the preset itself was run, unless `trials`
    asks for them; JSON has them always. Lines are at most `width` letters long; without it a row
    is one line with everything. A damaged run is an error or, with `warn`,
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
    tables = sections(shown)
    parts = [text_table(section, width=width) for section in tables]
    parts += [plot for section in tables for plot in _plots(section, width)]
    closing = [*_legend(tables), *_summary(groups), *_left_out(len(groups) - len(shown))]
    parts.append("\n".join(wrapped(text, width) for text in closing))
    return "\n\n".join(parts)


def _without_trials(groups: Sequence[Group]) -> list[Group]:
    """All but the trials of presets that were run themselves."""
    presets = {group.name for group in groups if group.is_preset}
    return [group for group in groups if group.name not in presets or group.is_preset]


def _legend(tables: Sequence[Section]) -> tuple[str, ...]:
    """What columns mean, where a table has some that need it."""
    return _LEGEND if any(section.presets for section in tables) else ()


def _summary(groups: Sequence[Group]) -> list[str]:
    """How much was run and, where rows of the paper were, how much of it."""
    runs = [run for group in groups for run in all_runs(group)]
    done = sum(run.outcome is not None for run in runs)
    found = overview(groups)
    counts = [f"{done} with a result, which took {found.hours}"] if done else []
    counts += [f"{len(runs) - done} without a result yet"] if len(runs) > done else []
    lines = [f"{len(runs)} run{'s' if len(runs) > 1 else ''}: {', '.join(counts)}."]
    if any(group.is_preset and group.name in ROWS for group in groups):
        lines.append(" ".join(sentences(found, reasons=False)))
    return lines


def _left_out(count: int) -> list[str]:
    what = "set of changed settings is" if count == 1 else "sets of changed settings are"
    return [f"{count} {what} left out: --trials shows them too."] if count else []


def _plots(section: Section, width: int | None) -> list[str]:
    """One plot for each task and metric, with all its runs."""
    kinds: dict[tuple[str, str], list[Group]] = {}
    for group in section.groups:
        kinds.setdefault((group.experiment.task.kind, curve_metric(group)), []).append(group)
    room = _WIDEST if width is None else max(_NARROWEST, min(_WIDEST, width))
    plots = []
    for (kind, metric), members in kinds.items():
        curves = group_curves(members, metric)
        if any(len(curve.points) > 1 for curve in curves):
            percent = metric.startswith("accuracy")
            task = kind.replace("_", " ").replace("mnist", "MNIST")
            what = f" of {task}" if len(kinds) > 1 else ""
            title = f"{section.title}: {metric_words(metric)}{what} on validation data"
            plots.append(text_plot(curves, title, width=room, percent=percent))
    return plots
