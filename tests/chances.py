"""Statistical judgements, all at one level: a right program fails one in ten thousand."""

from __future__ import annotations

import math

import torch
from torch import Tensor

DEVIATIONS = 4.0
KOLMOGOROV = 2.3
"""sqrt(N) times the Kolmogorov distance exceeds this with probability 2 exp(-2 * 2.3^2)."""


def assert_frequency(hits: Tensor, probability: float) -> None:
    """Independent events of that probability: a binomial count within four deviations."""
    count = hits.numel()
    expected = count * probability
    deviation = math.sqrt(count * probability * (1 - probability))
    assert abs(int(hits.sum()) - expected) <= DEVIATIONS * deviation


def assert_mean(values: Tensor, expected: Tensor) -> None:
    """Independent rows whose mean is `expected`: within four standard errors, unit by unit."""
    error = values.std(0) / math.sqrt(len(values))
    assert ((values.mean(0) - expected).abs() <= DEVIATIONS * error).all()


def assert_uniform(values: Tensor, bound: float) -> None:
    """Uniform between -bound and bound."""
    assert values.abs().max() <= bound
    _assert_distribution(values, lambda x: (x / bound + 1) / 2)


def assert_normal(values: Tensor, deviation: float) -> None:
    """Normal with mean 0."""
    _assert_distribution(values, lambda x: torch.special.ndtr(x / deviation))


def _assert_distribution(values: Tensor, cumulative) -> None:
    ordered = values.detach().double().flatten().sort().values
    count = len(ordered)
    below = torch.arange(count, dtype=torch.float64) / count
    share = cumulative(ordered)
    distance = torch.maximum((share - below).abs(), (share - below - 1 / count).abs()).max().item()
    assert distance * math.sqrt(count) <= KOLMOGOROV, f"distance {distance} from {count} draws"
