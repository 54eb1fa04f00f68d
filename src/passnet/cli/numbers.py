"""Numbers typed on the command line that make sense from some number on."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def count_of(words: str, *, low: int = 1) -> Callable[[str], int]:
    """What reads a whole number of at least `low`; `words` say what it counts, with an example."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {words}")
        return number

    return read


def whole_number(text: str) -> int:
    """Any whole number; which ones are seeds, an experiment knows."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a seed: give a whole number, such as 7"
        ) from None


def seed(text: str) -> int:
    """A whole number that PyTorch's generators take."""
    try:
        number = int(text)
    except ValueError:
        number = 2**64
    if not -(2**63) <= number < 2**64:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a seed: give a whole number of at most 64 bits, such as 7"
        )
    return number


def minutes(text: str) -> float:
    """A finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: give minutes, a number above 0 such as 9 or 0.5"
        )
    return number


def temperature(text: str) -> float:
    """A finite number of at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a temperature: give 0 or a number above it, such as 0.8"
        )
    return number
