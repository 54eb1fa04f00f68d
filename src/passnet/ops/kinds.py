"""What is found out about calls that are made over and over, once for each kind of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")
PATIENCE = 16
"""How many calls in a row, for each kind that is known, are of others before all are forgotten."""


class Kinds(Generic[Found]):
    """A few kinds of calls: nothing is kept of those that were made once but that they were.

    Further kinds stay unknown, for to find something out takes longer than a call. Where they are
    all that comes, as when another model is trained, the known ones make room.
    """

    def __init__(self, most: int) -> None:
        self._most, self._strangers = most, 0
        self._found: dict[Hashable, Found | None] = {}

    def of(self, kind: Hashable, find: Callable[[], Found]) -> Found | None:
        """None for the first call of a kind; from the second on what `find` finds, once."""
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
