"""What a folder of results has of one preset, in a line."""

from __future__ import annotations

from pathlib import Path

from passnet.report import numbers
from passnet.report.errors import ReportError
from passnet.report.groups import group_runs
from passnet.report.paper import compare
from passnet.report.read import find_runs
from passnet.report.text_tables import ranges


def recorded(preset: str, results: Path) -> list[str]:
    """A line with folder, score and seeds where results of the preset as it is are there.

    Looks where `passnet reproduce` puts them; a damaged run is left to `passnet report`.
    """
    folder = results / preset
    if not folder.is_dir():
        return []
    try:
        groups = group_runs(find_runs([folder]))
    except ReportError as error:
        return [str(error)]
    lines = []
    for group in groups:
        if group.is_preset and group.name == preset and group.finished:
            score = numbers.summary(group.metric, group.summary())
            seeds = ranges(run.experiment.seed for run in group.finished)
            verdict = compare(group)
            beside = (
                "" if verdict is None else f"; beside the paper: {verdict.word}, {verdict.text}"
            )
            many = "s" if len(group.finished) > 1 else ""
            lines.append(f"{folder}: {score}, seed{many} {seeds}{beside}")
    return lines
