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


def speedup_table(folder: Folder) -> str:
    """Markdown with a row for each layer, over all its shapes, from the newest file that has each.

    Forward and backward, theirs over ours, both run the same way in the same run.
    """
    files = [file for file in read_speed(folder) if not file.growing]
    columns = [_newest(column, files) for column in COLUMNS]
    layers = sorted({_layer(shape) for found in columns for shape in found})
    shown = [column for column, found in zip(COLUMNS, columns, strict=True) if found]
    lines = [
        f"| units, rank | {' | '.join(column.title for column in shown)} |",
        "|---|" + "--:|" * len(shown),
    ]
    for layer in layers:
        cells = [
            _span([ratio for shape, ratio in found.items() if _layer(shape) == layer])
            for found in columns
            if found
        ]
        kind, units, rank = layer
        name = f"{units}, {rank}" if kind == "GRU" else f"{kind} {units}, {rank}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
                    if ratio is not None:
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
