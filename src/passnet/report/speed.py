"""Timings that benchmarks left in a folder, one table for each machine and kind of pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passnet.report import numbers
from passnet.report.errors import ReportError
from passnet.report.read import Folder

_SHAPE = ("shape", "n", "d", "T", "B", "dtype")


@dataclass(frozen=True)
class Timing:
    """One measurement."""

    shape: tuple[str, ...]
    kind: str
    contender: str
    milliseconds: float
    peak_bytes: float | None


@dataclass(frozen=True)
class SpeedTable:
    """Timings of one file and pass: a row for each shape, a column for each contender.

    cells: milliseconds, peak memory where known, and whether it is the fastest of its row.
    """

    title: str
    facts: str
    contenders: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[tuple[str, str, bool], ...]], ...]
    timings: tuple[Timing, ...]


def read_speed(folder: Folder) -> list[SpeedTable]:
    """The tables of every `*.json` in a folder of benchmark results."""
    root = Path(folder)
    if not root.is_dir():
        raise ReportError(f"there is no folder {root}: give the folder of benchmark results")
    return [table for path in sorted(root.glob("*.json")) for table in _tables(path)]


def _tables(path: Path) -> list[SpeedTable]:
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read as JSON ({error})") from error
    facts = record if isinstance(record, dict) else {}
    rows = facts.get("rows") if isinstance(record, dict) else record
    if not isinstance(rows, list):
        raise ReportError(f"{path} is no benchmark result: expected a list of rows")
    timings = [_timing(row, path, number) for number, row in enumerate(rows, start=1)]
    kinds = dict.fromkeys(timing.kind for timing in timings)
    return [
        _table(path.stem, facts, kind, [timing for timing in timings if timing.kind == kind])
        for kind in kinds
    ]


def _timing(row: Any, path: Path, number: int) -> Timing:
    try:
        peak = row.get("peak_bytes")
        return Timing(
            shape=tuple(
                numbers.ABSENT if row.get(key) is None else str(row[key]) for key in _SHAPE
            ),
            kind=str(row["pass"]),
            contender=str(row["contender"]),
            milliseconds=float(row["milliseconds"]),
            peak_bytes=None if peak is None else float(peak),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(
            f"{path}, row {number}: expected {', '.join(_SHAPE)}, pass, contender, milliseconds "
            f"and peak_bytes, got {row!r}"
        ) from error


def _table(stem: str, facts: dict[str, Any], kind: str, timings: Sequence[Timing]) -> SpeedTable:
    contenders = tuple(dict.fromkeys(timing.contender for timing in timings))
    by_shape: dict[tuple[str, ...], dict[str, Timing]] = {}
    for timing in timings:
        by_shape.setdefault(timing.shape, {})[timing.contender] = timing
    rows = []
    for shape, found in by_shape.items():
        fastest = min(timing.milliseconds for timing in found.values())
        rows.append((shape, tuple(_cell(found.get(name), fastest) for name in contenders)))
    words = [f"{key} {value}" for key, value in facts.items() if isinstance(value, str | int)]
    device = facts.get("device", stem)
    return SpeedTable(
        f"{device}: {kind}", ", ".join(words), contenders, tuple(rows), tuple(timings)
    )


def _cell(timing: Timing | None, fastest: float) -> tuple[str, str, bool]:
    if timing is None:
        return numbers.ABSENT, "", False
    peak = "" if timing.peak_bytes is None else numbers.size(timing.peak_bytes)
    text = f"{numbers.significant(timing.milliseconds)} ms"
    return text, peak, timing.milliseconds == fastest
