"""Aligned columns of text, fewer of them where a terminal is too narrow for all."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence


def columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    spare: Sequence[str] = (),
) -> str:
    """A line for the header and for each row; columns that are empty in all rows are left out.

    Where lines are wider than `width`, the first column is cut to half of it, and the `spare`
    columns go, the first one first.
    """
    lines = [tuple(header), *map(tuple, rows)]
    kept = [k for k in range(len(header)) if k == 0 or any(row[k] for row in rows)]
    if width is not None and _width(lines, kept) > width:
        lines = [(cut(line[0], width // 2), *line[1:]) for line in lines]
        for title in spare:
            if _width(lines, kept) > width:
                kept = [k for k in kept if header[k] != title]
    sizes = {k: max(len(line[k]) for line in lines) for k in kept}
    return "\n".join("  ".join(line[k].ljust(sizes[k]) for k in kept).rstrip() for line in lines)


def wrapped(text: str, width: int | None) -> str:
    """A text as lines of that width, the later ones indented; as one line without a width."""
    if width is None:
        return text
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def cut(text: str, most: int) -> str:
    """At most so many letters of a text, the last one a sign that there are more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _width(lines: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
    return sum(max(len(line[k]) for line in lines) for k in kept) + 2 * (len(kept) - 1)
