"""Numbers other people published on the same tasks, each with its source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Published:
    """A published result; `parameters` is rounded, None where it is not stated.

    converted: about what it is in the tokens of the paper, where its own are others.
    """

    model: str
    parameters: int | None
    value: float
    cite: str
    arxiv: str
    note: str
    converted: float | None = None


@cache
def published() -> dict[str, tuple[Published, ...]]:
    """Published results by task: accuracies as fractions, bits per character."""
    file = resources.files("passnet.report") / "data" / "published.json"
    tasks = json.loads(file.read_text(encoding="utf-8"))
    return {task: tuple(Published(**row) for row in rows) for task, rows in tasks.items()}
