"""Macro and micro perplexity and bits per character from per-character costs in nats."""

from __future__ import annotations

import math


def sentence_mean(costs):
    """Mean cost of one sentence, its end-of-sentence symbol included by the caller."""
    if len(costs) == 0:
        raise ValueError("a sentence needs at least one cost")
    total = 0.0
    for cost in costs:
        total += cost
    return total / len(costs)


def macro_cost(sentences):
    """Mean over sentences of each sentence's mean cost, in nats."""
    total = 0.0
    for costs in sentences:
        total += sentence_mean(costs)
    return total / len(sentences)


def micro_cost(sentences):
    """Mean cost over all characters of all sentences, in nats."""
    total = 0.0
    characters = 0
    for costs in sentences:
        for cost in costs:
            total += cost
            characters += 1
    return total / characters


def macro_perplexity(sentences):
    """The perplexity the paper publishes: exp of the macro average."""
    return math.exp(macro_cost(sentences))


def micro_perplexity(sentences):
    """The usual perplexity: exp of the micro average."""
    return math.exp(micro_cost(sentences))


def macro_bits_per_character(sentences):
    """The macro average in bits, whose base-2 exponential is the macro perplexity."""
    return macro_cost(sentences) / math.log(2.0)


def micro_bits_per_character(sentences):
    """The micro average in bits, whose base-2 exponential is the micro perplexity."""
    return micro_cost(sentences) / math.log(2.0)
