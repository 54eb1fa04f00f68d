"""What a row gives with the settings of the paper's own code or logs, where they contradict it."""

from __future__ import annotations

from collections.abc import Iterable

from passnet.experiments import DISCREPANCIES
from passnet.report import numbers
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
        f"with {' '.join(entry.settings)} {_score(trials[frozenset(entry.settings)])}"
        for entry in entries
        if frozenset(entry.settings) in trials
    ]


def _score(group: Group) -> str:
    """The score of some runs, or how many of them are below the paper's bound."""
    paper, outcomes = group.experiment.paper, [run.outcome for run in group.finished]
    values = [o.value for o in outcomes if o is not None and o.value is not None]
    if paper is not None and paper.value is not None and paper.relation == "below":
        good = sum(value < paper.value for value in values)
        return f"reached by {good} of {len(group.finished)} seeds"
    seeds = f", {len(values)} seeds" if len(values) > 1 else ""
    return numbers.summary(group.metric, group.summary()) + seeds
