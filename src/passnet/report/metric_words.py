"""The metrics as people name them."""

from __future__ import annotations

_WORDS = {
    "cross_entropy_nats": "cross-entropy in nats",
    "cross_entropy_nats_micro": "cross-entropy in nats, micro",
    "cross_entropy_nats_macro": "cross-entropy in nats, macro",
    "mse_paper_distribution": "mean squared error",
    "mse_author_distribution": "mean squared error, marked anywhere",
    "error_percent": "errors",
    "squared_hinge": "squared hinge loss",
    "bits_per_character_micro": "bits per character",
    "perplexity_macro": "perplexity, macro",
    "perplexity_micro": "perplexity, micro",
}


def metric_words(metric: str) -> str:
    """The name of a metric in words; of one that no task reports, as it is but for its dashes."""
    return _WORDS.get(metric, metric.replace("_", " "))
