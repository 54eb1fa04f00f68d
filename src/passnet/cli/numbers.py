"""Numbers typed on the command line that make sense from some number on."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def _number(
    read: Callable[[str], Number], allows: Callable[[Number], bool], words: str
) -> Callable[[str], Number]:
    """What reads a number of some kind; `words` say what any other text is not."""

    def typed(text: str) -> Number:
        try:
            number = read(text)
        except ValueError:
            number = None
        if number is None or not allows(number):
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return number

    return typed


def count_of(words: str, *, low: int = 1) -> Callable[[str], int]:
    """What reads a whole number of at least `low`; `words` say what it counts, with an example."""
    return _number(int, lambda number: number >= low, f"a number of {words}")


whole_number = _number(int, lambda number: True, "a seed: give a whole number, such as 7")
"""Any whole number; which ones are seeds, an experiment knows."""

seed = _number(
    int,
    lambda number: -(2**63) <= number < 2**64,
    "a seed: give a whole number of at most 64 bits, such as 7",
)
"""A whole number that PyTorch's generators take."""

minutes = _number(
    float,
    lambda number: 0 < number < math.inf,
    "a time: give minutes, a number above 0 such as 9 or 0.5",
)
"""A finite number above 0."""

temperature = _number(
    float,
    lambda number: 0 <= number < math.inf,
    "a temperature: give 0 or a number above it, such as 0.8",
)
"""A finite number of at least 0."""
