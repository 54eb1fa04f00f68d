"""Scalar activation functions the other oracle modules share."""

from __future__ import annotations

import math


def sigmoid(value: float) -> float:
    """The logistic function, in the branch whose exponential cannot overflow."""
    if value >= 0.0:
        return 1.0 / (1.0 + math.exp(-value))
    return math.exp(value) / (1.0 + math.exp(value))


def relu(value: float) -> float:
    """The rectifier; NaN passes through instead of turning into zero."""
    return 0.0 if value < 0.0 else value
