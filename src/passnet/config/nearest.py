"""The known word a mistyped one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, or None when nothing is close."""
    candidates = {candidate.casefold(): candidate for candidate in known}
    found = difflib.get_close_matches(word.casefold(), candidates, n=1, cutoff=0.5)
    return candidates[found[0]] if found else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """A sentence to append to an error: the nearest known word, or all of them when few."""
    known = list(known)
    found = nearest(word, known)
    if found is not None:
        return f"perhaps you meant {found!r}"
    if len(known) <= 12:
        return f"known are {', '.join(known)}"
    return "nothing known is close to it"
