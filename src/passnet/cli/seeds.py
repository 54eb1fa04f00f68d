"""Which seeds are meant: `0..4`, `1,5,7`, or where that is asked, how many."""

from __future__ import annotations

from collections.abc import Sequence

from passnet.config import ConfigurationError

MOST = 1000


def parse_seeds(text: str) -> list[int]:
    """`0..4` or `1,5,7` as numbers."""
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split(".."))
            found = range(first, last + 1)
        else:
            found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    _check_count(found)
    if not found or min(found) < 0 or len(set(found)) < len(found):
        raise ConfigurationError(
            f"--seeds {text}: expected a range or a list of distinct whole numbers, such as 0..4 "
            "or 1,5,7"
        )
    return list(found)


def listed_seeds(text: str) -> list[int]:
    """`0..4` or `1,5,7`; a number alone, which may mean a seed or how many, is refused."""
    seeds = parse_seeds(text)
    if not text.isdecimal():
        return seeds
    (count,) = seeds
    several = f"--seeds 0..{count - 1} for {count} seeds" if count > 1 else "a range such as 0..4"
    raise ConfigurationError(f"--seeds {text}: write --seed {text} for that seed, or {several}")


def chosen_seeds(text: str) -> list[int]:
    """`3` as the first three seeds; `0..4` or `1,5` as those."""
    seeds = parse_seeds(text)
    if not text.isdecimal():
        return seeds
    (count,) = seeds
    if count == 0:
        raise ConfigurationError(
            "--seeds 0: give how many seeds of each row, such as 3, or which, such as 0..4"
        )
    _check_count(range(count))
    return list(range(count))


def _check_count(seeds: Sequence[int]) -> None:
    """Raise a sentence for more seeds than anybody means."""
    if seeds[MOST:]:
        raise ConfigurationError(f"--seeds asks for more than {MOST} runs each: give fewer")
