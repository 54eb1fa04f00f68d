"""How many times as fast as torch.nn our layers are: one short table of the newest timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from passnet.config.contender import (
    BF16,
    CALL,
    FLOAT32,
    FP16,
    GRAPH,
    OURS,
    PRECISIONS,
    ContenderName,
)
from passnet.report import numbers
from passnet.report.speed import MAIN, THEIRS, SpeedFile

Shape = tuple[str, ...]
Times = dict[ContenderName, float]


@dataclass(frozen=True)
class _Ratio:
    """How many times as long theirs takes."""

    value: float
    machine: str


@dataclass(frozen=True)
class Column:
    """How both are run, on what, and the precisions of which the fastest counts for each."""

    title: str
    way: str = CALL
    device: str = "cuda"
    ours: tuple[str, ...] = (FLOAT32,)
    theirs: tuple[str, ...] = (FLOAT32,)

    def ratio(self, times: Times, machine: str) -> _Ratio | None:
        """Theirs over ours, of one shape in one file; None where a precision was not timed."""
        ours, theirs = (
            {p: times[name] for p in precisions if (name := self._name(layer, p)) in times}
            for layer, precisions in ((OURS, self.ours), (THEIRS, self.theirs))
        )
        if len(ours) < len(self.ours) or len(theirs) < len(self.theirs):
            return None
        return _Ratio(min(theirs.values()) / min(ours.values()), machine)

    def _name(self, layer: str, precision: str) -> ContenderName:
        return ContenderName(layer, precision, self.way)


CALLED, ON_A_CPU = Column("ordinary call"), Column("on a CPU", device="cpu")
COLUMNS = (
    CALLED,
    Column("as one CUDA graph", GRAPH),
    Column(f"against {THEIRS}'s fastest precision", theirs=PRECISIONS),
    Column("each in its fastest precision", ours=(FLOAT32, BF16, FP16), theirs=PRECISIONS),
    ON_A_CPU,
)


@dataclass(frozen=True, order=True)
class Layer:
    """What the shapes of a row are: GRU or LSTM, its units and its rank."""

    kind: str
    units: int
    rank: int
    tied: bool

    def __str__(self) -> str:
        kind = "" if self.kind == "GRU" else f"{self.kind} "
        return f"{kind}{self.units}, {self.rank}" + (" tied" if self.tied else "")


@dataclass(frozen=True)
class Span:
    """The lowest and the highest ratio of a layer's shapes, and the machines they are from."""

    column: Column
    layer: Layer
    low: float
    high: float
    machines: tuple[str, ...]

    def __str__(self) -> str:
        low, high = (f"{numbers.significant(end, 2)}x" for end in (self.low, self.high))
        return low if low == high else f"{low.removesuffix('x')} to {high}"


@dataclass(frozen=True)
class Speedups:
    """A row of words for each layer, below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def speedup_table(files: Sequence[SpeedFile]) -> str:
    """The speedups as Markdown."""
    found = speedups(files)
    rule = "|---|" + "--:|" * (len(found.header) - 1)
    lines = [f"| {' | '.join(row)} |" for row in (found.header, *found.rows)]
    return "\n".join((lines[0], rule, *lines[1:]))


def speedups(files: Sequence[SpeedFile]) -> Speedups:
    """A row for each layer, over all its shapes, from the newest file that has each.

    Forward and backward, theirs over ours, both in the same run.
    """
    every = spans(files)
    titles = [column.title for column in COLUMNS if any(s.column == column for s in every)]
    rows = []
    for layer in sorted({span.layer for span in every}):
        words = {span.column.title: str(span) for span in every if span.layer == layer}
        rows.append((str(layer), *(words.get(title, "") for title in titles)))
    return Speedups(("units, rank", *titles), tuple(rows))


def spans(files: Sequence[SpeedFile]) -> list[Span]:
    """What each layer gains in each column, over all its shapes."""
    alike = [file for file in files if not file.growing]
    found = []
    for column in COLUMNS:
        ratios = _newest(column, alike)
        for layer in sorted({_layer(shape) for shape in ratios}):
            of = [ratio for shape, ratio in ratios.items() if _layer(shape) == layer]
            values = [ratio.value for ratio in of]
            machines = sorted({ratio.machine for ratio in of})
            found.append(Span(column, layer, min(values), max(values), tuple(machines)))
    return found


def _newest(column: Column, files: Sequence[SpeedFile]) -> dict[Shape, _Ratio]:
    """The ratio of every shape, from the first file that has it."""
    found: dict[Shape, _Ratio] = {}
    for file in files:
        if file.title.startswith(column.device):
            for shape, times in _by_shape(file).items():
                ratio = column.ratio(times, file.title)
                if ratio is not None:
                    found.setdefault(shape, ratio)
    return found


def _by_shape(file: SpeedFile) -> dict[Shape, Times]:
    """The times of both passes together, of each shape that has units and a rank."""
    found: dict[Shape, Times] = {}
    for table in file.tables:
        for timing in table.timings if table.kind == MAIN else ():
            if all(part.isdigit() for part in timing.shape[1:3]):
                found.setdefault(timing.shape, {})[timing.name] = timing.milliseconds
    return found


def _layer(shape: Shape) -> Layer:
    name, units, rank, *_ = shape
    return Layer("LSTM" if "LSTM" in name else "GRU", int(units), int(rank), "tied" in name)
