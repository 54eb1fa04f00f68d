"""What a README quotes of results, notes and timings: written between marks from the files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from passnet.report.alike import alike
from passnet.report.claims import CLAIMS, judged
from passnet.report.conclusions import CONCLUSIONS
from passnet.report.errors import ReportError
from passnet.report.groups import Group, group_runs
from passnet.report.lines import HEADER, write_line
from passnet.report.overview import overview, sentences
from passnet.report.paper import BEYOND, TABLES, Table
from passnet.report.pictures import old_picture, write_pictures
from passnet.report.read import Folder, find_runs, read_text
from passnet.report.shortfalls import shortfalls
from passnet.report.speed import SpeedFile, read_speed
from passnet.report.speedup import speedup_table
from passnet.report.write import write_whole

RESULTS, SPEED, SHORTFALLS = "results", "speed", "shortfalls"
_HOW_TO_READ = """\
How to read the tables:

- passnet's numbers are means over seeds ± the sample standard deviation. Errors of the memory and
  addition tasks differ by factors, so theirs are medians with the range in brackets.
- A row matches the paper when it differs by no more than the standard deviation, the rounding of
  the printed number or, for accuracies, the standard error of one test. Where the seeds spread
  wider than the paper's number itself, as on the addition task, the row says how many reach it.
- A seed has solved a memory task when its test cross-entropy is below 0.001 nats.
- Where a seed was run again, on another device or under another commit, one of its runs counts and
  the row says what the others gave.
- Parameters are the true count, which is larger than the paper's."""


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- /{name} -->"


@dataclass(frozen=True)
class _Passage:
    """What is to stand between the marks of a name."""

    name: str
    text: str

    def parted(self, path: Path, text: str) -> tuple[str, str, str]:
        """What a README has before the marks, between them, and after."""
        begin, end = _marks(self.name)
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise ReportError(
                f"{path} needs one line {begin} and below it one line {end}: "
                f"the {self.name} go between"
            )
        before, _, rest = text.partition(begin)
        shown, _, after = rest.partition(end)
        return before, shown, after

    def put_into(self, path: Path, text: str) -> str:
        before, _, after = self.parted(path, text)
        begin, end = _marks(self.name)
        return f"{before}{begin}\n\n{self.text}\n\n{end}{after}"

    def disagreement(self, path: Path, text: str) -> str | None:
        expected = f"\n\n{self.text}\n\n".split("\n")
        there = self.parted(path, text)[1].split("\n")
        for number, (old, new) in enumerate(zip(there, expected, strict=False), start=1):
            if old != new:
                return (
                    f"{path} disagrees with the {self.name} at line {number} after "
                    f"{_marks(self.name)[0]}: it says {old!r} and the files give {new!r}; "
                    "generate it again"
                )
        if len(there) != len(expected):
            return (
                f"{path} has {len(there)} lines of {self.name} and the files give "
                f"{len(expected)}; generate it again"
            )
        return None


def readme_results(folders: Iterable[Folder], *, reasons: bool = False) -> str:
    """The results as Markdown: counts, then every row of the paper with its number and ours.

    `reasons`: the README tells below what is known of rows that fall short.
    """
    return _results(group_runs(find_runs(folders)), reasons=reasons)


def _results(groups: Sequence[Group], *, reasons: bool) -> str:
    first, *others = sentences(overview(groups), reasons=reasons)
    parts = [first, "\n".join(f"- {other}" for other in others)]
    parts += [_section(table, groups) for table in (*TABLES, BEYOND) if table.presets]
    return "\n\n".join((*parts, _HOW_TO_READ, *_claims(groups)))


def has_marks(readme: str | os.PathLike[str], name: str = RESULTS) -> bool:
    """Whether a file is there that asks for the results, or for what else has such a name."""
    path = Path(readme)
    asked, _ = _marks(name)
    return path.is_file() and asked in path.read_text(encoding="utf-8", errors="replace")


def update_readme(
    readme: str | os.PathLike[str], folders: Iterable[Folder], benchmarks: Folder | None = None
) -> bool:
    """Write the tables between the marks of a README and draw the pictures that it shows; returns
    whether anything changed.

    The table of speed is written where there are timings and the README asks for it, what the
    notes say of rows that fall short where it asks for that.
    """
    path, sources = Path(readme), _Sources.read(folders, benchmarks)
    text = new = read_text(path)
    for passage in sources.passages(path):
        new = passage.put_into(path, new)
    if new != text:
        write_whole(readme, new)
    drawn = write_pictures(path, sources.groups, sources.speed)
    return new != text or bool(drawn)


def readme_disagreement(
    readme: str | os.PathLike[str], folders: Iterable[Folder], benchmarks: Folder | None = None
) -> str | None:
    """None where README, its pictures and the files agree, else one sentence with the first
    difference."""
    path, sources = Path(readme), _Sources.read(folders, benchmarks)
    text = read_text(path)
    found = (passage.disagreement(path, text) for passage in sources.passages(path))
    words = next((difference for difference in found if difference is not None), None)
    return words or old_picture(path, sources.groups, sources.speed)


@dataclass(frozen=True)
class _Sources:
    """The files that a README quotes."""

    folders: list[Folder]
    groups: list[Group]
    speed: list[SpeedFile]

    @classmethod
    def read(cls, folders: Iterable[Folder], benchmarks: Folder | None) -> _Sources:
        folders = list(folders)
        speed = [] if benchmarks is None else read_speed(benchmarks)
        return cls(folders, group_runs(find_runs(folders)), speed)

    def passages(self, path: Path) -> list[_Passage]:
        reasons = has_marks(path, SHORTFALLS)
        found = [_Passage(RESULTS, _results(self.groups, reasons=reasons))]
        if reasons:
            found.append(_Passage(SHORTFALLS, shortfalls(self.folders)))
        if self.speed and has_marks(path, SPEED):
            found.append(_Passage(SPEED, speedup_table(self.speed)))
        return found


def _claims(groups: Sequence[Group]) -> list[str]:
    """The paper's conclusions, as far as there are runs to judge them by."""
    found = [claim for claim in judged(CONCLUSIONS, groups) if claim.verdict != "not run"]
    if not found:
        return []
    lines = [f"**{CLAIMS}**", "", "The report page shows the runs behind each verdict.", ""]
    lines += ["| the paper says | where | verdict |", "|---|---|---|"]
    for claim in found:
        verdict = ", ".join(filter(None, (claim.verdict, claim.caveat)))
        lines.append(_row((claim.text, claim.where, verdict)))
    return ["\n".join(lines)]


def _row(cells: Iterable[str]) -> str:
    """A line of a table, in which `<unk>` is no element."""
    return re.sub(r"<(?=\w)", r"\<", f"| {' | '.join(cells)} |")


def _section(table: Table, groups: Sequence[Group]) -> str:
    by_name = {group.name: group for group in groups if group.is_preset}
    header, rule = _row(HEADER), "|---|--:|---|--:|--:|--:|--:|---|"
    shared = alike(table.presets, groups)
    lines = [f"**{table.title}**", ""]
    lines += [shared.sentence, ""] if shared.sentence else []
    lines += [header, rule]
    for name in table.presets:
        line = write_line(name, by_name.get(name), groups, said=shared.remarks)
        ours = line.ours if line.scored else f"*{line.ours}*"
        cells = replace(line, preset=f"`{name}`", ours=ours).cells
        lines.append(_row(cells))
    return "\n".join(lines)
