"""The known word a mistyped one was probably meant to be."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, or None when nothing is close."""
    candidates = {candidate.casefold(): candidate for candidate in known}
    word = word.casefold()
    close = difflib.get_close_matches(word, candidates, n=len(candidates) or 1, cutoff=0.5)
    return candidates[max(close, key=lambda found: _closeness(word, found))] if close else None


def _closeness(word: str, known: str) -> float:
    """How alike two words are, from 0 to 1; more so when they begin alike, up to four letters."""
    alike = difflib.SequenceMatcher(None, known, word).ratio()
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(word, known, strict=False))
    beginning = len(list(itertools.islice(same, 4)))
    return alike + 0.1 * beginning * (1 - alike)


def suggestion(word: str, known: Iterable[str]) -> str:
    """A sentence to append to an error: the nearest known word, or all of them when few."""
    known = list(known)
    found = nearest(word, known)
    if found is not None:
        return f"perhaps you meant {found!r}"
    if len(known) <= 12:
        return f"known are {', '.join(known)}"
    return "nothing known is close to it"
