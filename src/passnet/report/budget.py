"""Scores against parameters: our runs, the paper's rows, and what others published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from passnet.config import PaperResult
from passnet.report.budget_chart import budget_chart, numbered
from passnet.report.figures import Figure
from passnet.report.groups import Group, Summary
from passnet.report.numbers import count, score
from passnet.report.paper import BEYOND
from passnet.report.spots import (
    MACRO,
    MICRO,
    Spot,
    our_spots,
    paper_spots,
    published_spots,
)

_COUNTS = (
    "Parameters: for the paper's models and ours all trainable parameters, which is more than the "
    "paper prints; for the others what their sources say. The list below names the points by "
    "number, starting with the smallest model."
)


def digits_budget(groups: Sequence[Group]) -> Figure:
    """Accuracy on permuted MNIST against parameters."""
    spots = [
        *published_spots("sequential permuted MNIST"),
        *paper_spots("table-1", lambda paper: (paper.value, "test accuracy, table 1", "")),
        *our_spots(groups, "sequential_mnist", lambda group: (group.summary("accuracy"), "")),
    ]
    return Figure(
        "budget-digits",
        "Accuracy against parameters",
        "Permuted MNIST, test accuracy. Bars are the spread of seeds. On 10 000 test digits the "
        "standard error of one run is about 0.2 points, so smaller gaps between single runs mean "
        "nothing; permutations differ between papers. The full-capacity uRNN, UnICORNN with three "
        "layers of 128 units and the LMU are left out: their numbers were not checked against "
        f"their sources. {_COUNTS}",
        budget_chart(spots, "accuracy", best="up is better"),
        _listed(spots, "accuracy"),
    )


def characters_budget(groups: Sequence[Group]) -> Figure:
    """Bits per character on Penn Treebank against parameters."""
    spots = [
        *published_spots("character-level Penn Treebank"),
        *paper_spots("table-2", _printed_bits),
        *our_spots(groups, "character", _measured_bits),
    ]
    return Figure(
        "budget-characters",
        "Bits per character against parameters",
        "Penn Treebank, test set. Diamonds are macro: log2 of a perplexity averaged over "
        "sentences, each read from an initial state, as the paper's for the GRUs and ours of the "
        f"same rows. All other points are micro, averaged over characters{_apart(groups)}. Hollow "
        "circles were published for other tokens and are converted approximately. LEM and "
        "FS-LSTM-2 are left out: their numbers were not checked against their sources. "
        f"{_COUNTS}",
        budget_chart(spots, "bits_per_character_micro", best="down is better"),
        _listed(spots, "bits_per_character_micro"),
    )


def _listed(spots: Sequence[Spot], metric: str) -> tuple[str, ...]:
    """The spots in the order of their numbers."""
    pairs = sorted(zip(numbered(spots), spots, strict=True), key=lambda pair: pair[0])
    return tuple(
        f"{spot.model}, {spot.source}: {count(spot.parameters)}, "
        + score(metric, spot.value).replace(" %", "\u00a0%")
        for _, spot in pairs
    )


def _printed_bits(paper: PaperResult) -> tuple[float | None, str, str]:
    """Bits per character of a printed perplexity."""
    macro = paper.metric.endswith("macro")
    value = None if paper.value is None else math.log2(paper.value)
    note = f"log2 of the printed {'macro' if macro else 'micro'} perplexity"
    return value, note, MACRO if macro else MICRO


def _measured_bits(group: Group) -> tuple[Summary | None, str]:
    """Bits per character of our runs, averaged as the paper's number of the same row is."""
    if group.name in BEYOND.presets:
        return group.summary("bits_per_character_micro"), ""
    if group.metric.endswith("macro"):
        return _logarithm(group.summary(group.metric)), MACRO
    return group.summary("bits_per_character_micro"), MICRO


def _logarithm(found: Summary | None) -> Summary | None:
    """The bits of a perplexity over seeds."""
    if found is None:
        return None
    spread = None if found.spread is None else found.spread / (found.mean * math.log(2))
    of = {name: math.log2(getattr(found, name)) for name in ("mean", "median", "least", "most")}
    return replace(found, spread=spread, **of)


def _apart(groups: Sequence[Group]) -> str:
    """By how much the two averages of our runs differ, in words."""
    gaps = []
    for group in groups:
        macro = _logarithm(group.summary("perplexity_macro"))
        micro = group.summary("bits_per_character_micro")
        if group.is_preset and _measured_bits(group)[1] == MACRO and macro and micro:
            gaps.append(macro.mean - micro.mean)
    if not gaps:
        return ""
    low, high = f"{min(gaps):.2f}", f"{max(gaps):.2f}"
    span = low if low == high else f"{low} to {high}"
    return f"; for our runs of the same rows micro is lower by {span}"
