"""Timings that benchmarks left in a folder: for each file one table for each kind of pass."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from passnet.config.contender import OURS, ContenderName, read_name
from passnet.report import numbers
from passnet.report.errors import NothingThere, ReportError
from passnet.report.read import Folder

_SHAPE = ("shape", "n", "d", "T", "B")
THEIRS = "torch.nn"
MAIN = "forward+backward"
"""The pass that is shown first."""


@dataclass(frozen=True)
class Timing:
    """One measurement."""

    shape: tuple[str, ...]
    kind: str
    name: ContenderName
    milliseconds: float
    peak_bytes: float | None

    @property
    def contender(self) -> str:
        """The name as words."""
        return str(self.name)


@dataclass(frozen=True)
class Timed:
    """A cell: milliseconds, how many times as long as ours that is, and peak memory.

    which: the contender, where the heading of its column does not say it.
    """

    text: str
    times: str = ""
    peak: str = ""
    which: str = ""
    fastest: bool = False


@dataclass(frozen=True)
class SpeedTable:
    """Timings of one pass: a row for each shape, a column for each contender."""

    kind: str
    contenders: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Timed, ...]], ...]
    timings: tuple[Timing, ...]


@dataclass(frozen=True)
class SpeedFile:
    """What one run of the benchmark measured, the main pass first.

    growing: whether its sizes double. newest: whether no other of the same title is newer.
    """

    title: str
    facts: str
    tables: tuple[SpeedTable, ...]
    growing: bool = False
    newest: bool = True


def read_speed(folder: Folder) -> list[SpeedFile]:
    """Every `*.json` in a folder of benchmark results; those of growing sizes last."""
    root = Path(folder)
    if not root.is_dir():
        raise NothingThere(f"there is no folder {root}: give the folder of benchmark results")
    newest_first = sorted(root.glob("*.json"), key=lambda path: path.stem, reverse=True)
    files = sorted(map(_file, newest_first), key=lambda file: file.growing)
    seen = [file.title for file in files]
    return [replace(file, newest=seen.index(file.title) == k) for k, file in enumerate(files)]


def _file(path: Path) -> SpeedFile:
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read as JSON ({error})") from error
    facts = record if isinstance(record, dict) else {}
    rows = facts.get("rows") if isinstance(record, dict) else record
    if not isinstance(rows, list):
        raise ReportError(f"{path} is no benchmark result: expected a list of rows")
    timings = [_timing(row, path, number) for number, row in enumerate(rows, start=1)]
    kinds = sorted(dict.fromkeys(t.kind for t in timings), key=lambda kind: kind != MAIN)
    machine, versions = (_mapping(facts.get(key)) for key in ("machine", "versions"))
    title = str(machine.get("device") or facts.get("device") or path.stem)
    words = [facts.get("date"), machine.get("processor")]
    words += [f"{name} {versions[name]}" for name in ("torch", "cuda") if versions.get(name)]
    words += [f"commit {numbers.commit(facts['commit'])}" if facts.get("commit") else None]
    growing = "growth" in path.stem
    return SpeedFile(
        title=f"{title}, growing sizes" if growing else title,
        facts=", ".join(str(word) for word in words if word),
        tables=tuple(
            speed_table(kind, [(t.contender, t) for t in timings if t.kind == kind])
            for kind in kinds
        ),
        growing=growing,
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _timing(row: Any, path: Path, number: int) -> Timing:
    try:
        peak = row.get("peak_bytes")
        return Timing(
            shape=tuple(
                numbers.ABSENT if row.get(key) is None else str(row[key]) for key in _SHAPE
            ),
            kind=str(row["pass"]),
            name=_shared(read_name(str(row["contender"]))),
            milliseconds=float(row["milliseconds"]),
            peak_bytes=None if peak is None else float(peak),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(
            f"{path}, row {number}: expected {', '.join(_SHAPE)}, pass, contender, milliseconds "
            f"and peak_bytes, got {row!r}"
        ) from error


def _shared(name: ContenderName) -> ContenderName:
    """Layers that differ with the shape share a name: the row says which they are."""
    layer = re.sub(r"proj_size=\d+", "proj_size=d", name.layer)
    layer = re.sub(r"^nn\.(GRU|LSTM)Cell$", f"{THEIRS}'s cell", layer)
    return replace(name, layer=re.sub(r"^nn\.(GRU|LSTM)$", THEIRS, layer))


def speed_table(kind: str, named: Sequence[tuple[str, Timing]]) -> SpeedTable:
    """A table of timings, each with the title of its column."""
    contenders = tuple(dict.fromkeys(title for title, _ in named))
    by_shape: dict[tuple[str, ...], dict[str, Timing]] = {}
    for title, timing in named:
        by_shape.setdefault(timing.shape, {})[title] = timing
    rows = tuple(
        (shape, tuple(_cell(title, found) for title in contenders))
        for shape, found in by_shape.items()
    )
    return SpeedTable(kind, contenders, rows, tuple(timing for _, timing in named))


def _cell(title: str, row: dict[str, Timing]) -> Timed:
    timing, ours = row.get(title), row.get(OURS)
    if timing is None:
        return Timed(numbers.ABSENT)
    times = ""
    if ours is not None and timing is not ours:
        times = f"{numbers.significant(timing.milliseconds / ours.milliseconds, 2)}x"
    return Timed(
        text=f"{numbers.significant(timing.milliseconds)} ms",
        times=times,
        # A replayed graph allocates nothing: what it took when it was captured is not known here.
        peak=numbers.size(timing.peak_bytes) if timing.peak_bytes else "",
        which="" if timing.contender == title else timing.contender,
        fastest=timing.milliseconds == min(t.milliseconds for t in row.values()),
    )
