"""Plain aligned tables, the same in a terminal, a pipe and a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()
) -> str:
    """Columns two spaces apart; numbers to the right, words to the left but in columns `right`."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in [list(header), *texts]) for k in range(len(header))]
    numbers = [all(_is_number(row[k]) for row in rows) and bool(rows) for k in range(len(header))]
    sides = [is_number or name in right for is_number, name in zip(numbers, header, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in [list(header), *texts]
    ]
    return "\n".join(lines)


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


def _text(cell: object) -> str:
    return "-" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _is_number(cell: object) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))
