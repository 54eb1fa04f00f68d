"""How many times as fast as torch.nn our layers are: one short table of the newest timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from passnet.report import numbers
from passnet.report.read import Folder
from passnet.report.speed import MAIN, OURS, SpeedFile, Timing, read_speed

THEIRS = "torch.nn"


@dataclass(frozen=True)
class _Column:
    """A way to run both: what follows their names, and on what."""

    title: str
    way: str
    device: str = "cuda"

    def ratio(self, found: dict[str, Timing]) -> float | None:
        """How many times as long as ours theirs takes, of one shape in one file."""
        ours, theirs = found.get(OURS + self.way), found.get(THEIRS + self.way)
        return None if ours is None or theirs is None else theirs.milliseconds / ours.milliseconds


COLUMNS = (
    _Column("called", ""),
    _Column("graphed calls", " graphed calls"),
    _Column("as CUDA graphs", " graph"),
    _Column("in bf16, called", " bf16"),
    _Column("in bf16, as graphs", " bf16 graph"),
    _Column("on a CPU, called", "", "cpu"),
)
Layer = tuple[str, int, int]


@dataclass(frozen=True)
class Speedups:
    """A row of words for each layer, below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def speedup_table(folder: Folder) -> str:
    """The speedups of a folder's files as Markdown."""
    found = speedups(read_speed(folder))
    rule = "|---|" + "--:|" * (len(found.header) - 1)
    lines = [f"| {' | '.join(row)} |" for row in (found.header, *found.rows)]
    return "\n".join((lines[0], rule, *lines[1:]))


def speedups(files: Sequence[SpeedFile]) -> Speedups:
    """A row for each layer, over all its shapes, from the newest file that has each.

    Forward and backward, theirs over ours, both run the same way in the same run.
    """
    alike = [file for file in files if not file.growing]
    found = {column.title: _newest(column, alike) for column in COLUMNS}
    found = {title: ratios for title, ratios in found.items() if ratios}
    layers = sorted({_layer(shape) for ratios in found.values() for shape in ratios})
    rows = []
    for layer in layers:
        kind, units, rank = layer
        name = f"{units}, {rank}" if kind == "GRU" else f"{kind} {units}, {rank}"
        cells = [_span([r for s, r in of.items() if _layer(s) == layer]) for of in found.values()]
        rows.append((name, *cells))
    return Speedups(("units, rank", *found), tuple(rows))


def _newest(column: _Column, files: Sequence[SpeedFile]) -> dict[tuple[str, ...], float]:
    """The ratio of every shape, from the first file that has it."""
    found: dict[tuple[str, ...], float] = {}
    for file in files:
        if not file.title.startswith(column.device):
            continue
        for table in file.tables:
            if table.kind == MAIN:
                for shape, timings in _by_shape(table.timings).items():
                    ratio = column.ratio(timings)
                    if ratio is not None and all(part.isdigit() for part in shape[1:3]):
                        found.setdefault(shape, ratio)
    return found


def _by_shape(timings: Sequence[Timing]) -> dict[tuple[str, ...], dict[str, Timing]]:
    found: dict[tuple[str, ...], dict[str, Timing]] = {}
    for timing in timings:
        found.setdefault(timing.shape, {})[timing.contender] = timing
    return found


def _layer(shape: tuple[str, ...]) -> Layer:
    """What a shape is one of: GRU or LSTM, its units and its rank."""
    name, units, rank, *_ = shape
    return "LSTM" if "LSTM" in name else "GRU", int(units), int(rank)


def _span(ratios: Sequence[float]) -> str:
    """The lowest and the highest of some ratios, where they differ in what is shown."""
    if not ratios:
        return ""
    low, high = (f"{numbers.significant(end(ratios), 2)}x" for end in (min, max))
    return low if low == high else f"{low.removesuffix('x')} to {high}"
