"""Plain aligned tables, the same in a terminal, a pipe and a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()
) -> str:
    """Columns two spaces apart, words to the left and what is below the headings `right` there."""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [str.rjust if name in right else str.ljust for name in header]
    return "\n".join(
        "  ".join(
            side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=2, default=str))


def thousands(count: int | None, unit: int = 1) -> str:
    """A count as people write it: 20.6k, 2.54M; `unit` is that of its last known digit."""
    if count is None:
        return "-"
    for size, letter, places in ((1_000_000, "M", 2), (1000, "k", 1)):
        if count >= size:
            known = len(str(size // unit)) - 1
            return f"{count / size:.{min(places, known)}f}{letter}"
    return str(count)
