"""What a row gives with the settings of the paper's own code or logs, where they contradict it."""

from __future__ import annotations

from collections.abc import Iterable

from passnet.experiments import DISCREPANCIES
from passnet.report import numbers
from passnet.report.describe import second_runs
from passnet.report.groups import Group


def otherwise(name: str, groups: Iterable[Group]) -> list[str]:
    """A few words for each entry of the ledger that names the row and has runs to show."""
    trials = {
        frozenset(group.changes): group
        for group in groups
        if group.name == name and group.changes and group.scored
    }
    entries = [entry for entry in DISCREPANCIES if name in entry.presets]
    return [
        f"{entry.words}: {_score(trials[frozenset(entry.settings)])}"
        for entry in entries
        if frozenset(entry.settings) in trials
    ]


def _score(group: Group) -> str:
    """The score over some seeds, or how many of all runs are below the paper's bound.

    A mean takes one run of each seed; whether a bound was reached, second runs say as well as
    first ones.
    """
    paper = group.experiment.paper
    if paper is not None and paper.value is not None and paper.relation == "below":
        again = [run for run in group.repeated if run.outcome is not None]
        runs = [*group.finished, *again]
        values = [run.outcome.value for run in runs if run.outcome is not None]
        good = sum(value is not None and value < paper.value for value in values)
        return f"reached by {good} of {len(runs)} {'runs' if again else 'seeds'}"
    seeds = f", {len(group.scored)} seeds" if len(group.scored) > 1 else ""
    left_out = second_runs(group)
    score = numbers.summary(group.metric, group.summary()) + seeds
    return f"{score} ({left_out})" if left_out else score
