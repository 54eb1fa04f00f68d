"""The metrics tasks report: their names, direction and unit, for tables and selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One reported number; `better` is the direction of improvement."""

    better: Literal["min", "max"]
    unit: str
    meaning: str


METRICS = {
    "cross_entropy_nats": Metric("min", "nats", "mean over all answers"),
    "accuracy": Metric("max", "fraction", "the fraction of right answers"),
    "accuracy_on_symbols": Metric("max", "fraction", "the fraction of right symbols"),
    "mse_paper_distribution": Metric("min", "", "one marked number in each half"),
    "mse_author_distribution": Metric("min", "", "both marked numbers anywhere"),
    "error_percent": Metric("min", "%", "wrong answers among a hundred"),
    "squared_hinge": Metric("min", "", "summed over classes, mean over examples"),
    "cross_entropy_nats_micro": Metric("min", "nats", "mean over characters"),
    "cross_entropy_nats_macro": Metric("min", "nats", "mean over sentences of their means"),
    "bits_per_character_micro": Metric("min", "bits", "mean over characters"),
    "perplexity_micro": Metric("min", "", "exp of the mean cost over characters"),
    "perplexity_macro": Metric(
        "min", "", "exp of the mean over sentences of each sentence's mean cost, as the paper"
    ),
}


def better(metric: str) -> Literal["min", "max"]:
    """The direction in which a metric improves: one that no task reports is taken for an error."""
    return METRICS[metric].better if metric in METRICS else "min"
