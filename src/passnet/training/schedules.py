"""The learning rate of an update as a pure function of its number."""

from __future__ import annotations

import math

from passnet.config import Constant, Cosine, HalveOnPlateau, Schedule


def rate_factor(schedule: Schedule, update: int, *, total: int, halvings: int = 0) -> float:
    """What multiplies the learning rate at `update`, counted from 0, of `total`.

    `halvings` is how often a plateau has been met; only HalveOnPlateau minds it.
    """
    match schedule:
        case Constant():
            return 1.0
        case HalveOnPlateau():
            return 0.5**halvings
        case Cosine(warmup, final):
            if update < warmup:
                return (update + 1) / warmup
            done = (update - warmup) / (total - warmup)
            return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done))
