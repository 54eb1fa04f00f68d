"""The two orders in which permuted sequential MNIST shows its pixels."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np

Permutation = Literal["author", "common"]

_AUTHOR_SEED, _COMMON_SEED = 1234, 92916
_TRAIN, _VALID = 50_000, 10_000


def pixels(name: Permutation, size: int = 784) -> list[int]:
    """Which pixel stands at each step.

    "author": one stream from seed 1234 shuffles the indices of the 50 000 training digits, then of
    the 10 000 validation (or, when testing, test) digits, and then draws the permutation.
    Read from the author's two published scripts, of which the one for the low-rank plus diagonal
    rows is missing: that those rows were run with the same chain is likely but cannot be known.
    "common": `RandomState(92916).permutation(784)`, which most later papers use.
    NumPy keeps the streams of RandomState unchanged for ever, so both are the same everywhere.
    """
    if name == "author":
        stream = np.random.RandomState(_AUTHOR_SEED)
        stream.shuffle(np.arange(_TRAIN))
        stream.shuffle(np.arange(_VALID))
    elif name == "common":
        stream = np.random.RandomState(_COMMON_SEED)
    else:
        raise ValueError(f"permutation={name!r}: expected 'author', 'common' or None")
    return stream.permutation(size).tolist()


def digest(order: list[int]) -> str:
    """SHA-256 of the permutation written as decimal numbers joined by commas."""
    return hashlib.sha256(",".join(map(str, order)).encode()).hexdigest()
