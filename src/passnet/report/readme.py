"""The README's table of results: written between two marks from the runs themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from passnet.report.errors import ReportError
from passnet.report.groups import Group, group_runs
from passnet.report.lines import HEADER, write_line
from passnet.report.paper import BEYOND, TABLES, Table
from passnet.report.read import Folder, find_runs
from passnet.report.write import write_whole

BEGIN, END = "<!-- results -->", "<!-- /results -->"


def readme_results(folders: Iterable[Folder]) -> str:
    """The results as Markdown: every row of the paper with its number and ours."""
    groups = group_runs(find_runs(folders))
    parts = [_section(table, groups) for table in (*TABLES, BEYOND) if table.presets]
    parts.append(
        "passnet's numbers are means over seeds ± the sample standard deviation; parameters are "
        "the true count. A row matches when it differs from the paper by no more than that spread, "
        "the rounding of the printed number or, for accuracies, the standard error of one test; "
        "where seeds differ by more than the paper's number itself, they are counted one by one."
    )
    return "\n\n".join(parts)


def has_marks(readme: str | os.PathLike[str]) -> bool:
    """Whether a file is there that asks for the results."""
    path = Path(readme)
    return path.is_file() and BEGIN in path.read_text(encoding="utf-8", errors="replace")


def update_readme(readme: str | os.PathLike[str], folders: Iterable[Folder]) -> bool:
    """Write the results between the marks of a README; returns whether it changed."""
    before, _, after, text = _parted(readme)
    new = f"{before}{BEGIN}\n\n{readme_results(folders)}\n\n{END}{after}"
    if new != text:
        write_whole(readme, new)
    return new != text


def readme_disagreement(readme: str | os.PathLike[str], folders: Iterable[Folder]) -> str | None:
    """None where README and results agree, else one sentence with the first difference."""
    _, shown, _, _ = _parted(readme)
    expected = f"\n\n{readme_results(folders)}\n\n".split("\n")
    there = shown.split("\n")
    for number, (old, new) in enumerate(zip(there, expected, strict=False), start=1):
        if old != new:
            return (
                f"{readme} disagrees with the results at line {number} after {BEGIN}: it says "
                f"{old!r} and the results give {new!r}; generate it again"
            )
    if len(there) != len(expected):
        return (
            f"{readme} has {len(there)} lines of results and the results give {len(expected)}; "
            "generate it again"
        )
    return None


def _parted(readme: str | os.PathLike[str]) -> tuple[str, str, str, str]:
    path = Path(readme)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path} cannot be read ({error})") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ReportError(
            f"{path} needs one line {BEGIN} and below it one line {END}: the results go between"
        )
    before, _, rest = text.partition(BEGIN)
    shown, _, after = rest.partition(END)
    return before, shown, after, text


def _section(table: Table, groups: Sequence[Group]) -> str:
    by_name = {group.name: group for group in groups if group.is_preset}
    header, rule = f"| {' | '.join(HEADER)} |", "|---|--:|---|--:|--:|--:|--:|---|"
    lines = [f"**{table.title}**", "", header, rule]
    for name in table.presets:
        line = write_line(name, by_name.get(name))
        ours = line.ours if line.scored else f"*{line.ours}*"
        cells = replace(line, preset=f"`{name}`", ours=ours).cells
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
