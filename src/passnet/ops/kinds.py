"""What is found out about calls that are made over and over, once for each kind of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Kinds(Generic[Found]):
    """A few kinds of calls: nothing is kept of those that were made once but that they were."""

    def __init__(self, most: int) -> None:
        """With more than `most` kinds all are forgotten, so that ever new ones cost little."""
        self._most = most
        self._found: dict[Hashable, Found | None] = {}

    def of(self, kind: Hashable, find: Callable[[], Found]) -> Found | None:
        """None for the first call of a kind; from the second on what `find` finds, once."""
        found = self._found.get(kind)
        if found is not None:
            return found
        if kind not in self._found:
            if len(self._found) == self._most:
                self._found.clear()
            self._found[kind] = None
            return None
        found = self._found[kind] = find()
        return found
