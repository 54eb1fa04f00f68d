"""What is found out once about each kind of repeated call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")
PATIENCE = 16
"""How many calls of unknown kinds in a row, per known kind, make it forget all known ones."""


class Kinds(Generic[Found]):
    """A few kinds of calls; for one that was seen once, only that is remembered.

    Further kinds stay unknown, because finding something out takes longer than a call. If only they
    come, as when another model is trained, the known ones are forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most, self._strangers = most, 0
        self._found: dict[Hashable, Found | None] = {}

    def of(self, kind: Hashable, find: Callable[[], Found]) -> Found | None:
        """None for the first call of a kind; from the second on what `find` found once."""
        found = self._found.get(kind)
        if found is not None:
            self._strangers = 0
            return found
        if kind in self._found:
            found = self._found[kind] = find()
            return found
        if len(self._found) < self._most:
            self._found[kind] = None
            return None
        self._strangers += 1
        if self._strangers >= PATIENCE * self._most:
            self._found.clear()
            self._strangers = 0
        return None
