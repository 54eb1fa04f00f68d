"""The page's list of run folders, one line for each."""

from __future__ import annotations

from passnet.report import numbers
from passnet.report.describe import no_score
from passnet.report.groups import Group
from passnet.report.read import Run


def run_line(run: Run, group: Group) -> dict[str, str]:
    """What a run folder holds, by column.

    Where a run began under another commit than the one that wrote its result, both are named.
    """
    outcome = run.outcome
    versions = run.facts.get("versions") or {}
    began = numbers.commit(run.facts.get("commit"))
    ended = began if outcome is None else numbers.commit(outcome.commit)
    both = f"{began}, later {ended}"
    line = {
        "place": run.place,
        "label": group.label,
        "seed": str(run.experiment.seed),
        "protocol": run.experiment.protocol,
        "torch": str(versions.get("torch") or numbers.ABSENT),
        "commit": both if numbers.ABSENT != ended != began else began,
    }
    if outcome is None:
        words = f"unfinished, update {numbers.whole(run.reached)}"
        rest = dict.fromkeys(("selected", "recovered", "time", "device"), numbers.ABSENT)
        return line | {"value": words, "stopped": numbers.ABSENT} | rest
    return line | {
        "value": no_score(outcome)
        if outcome.value is None
        else numbers.score(outcome.metric, outcome.value),
        "selected": numbers.whole(outcome.selected_update),
        "stopped": outcome.stopped or numbers.ABSENT,
        "recovered": str(outcome.recovered),
        "time": numbers.duration(outcome.seconds),
        "device": f"{outcome.device}, {outcome.backend}",
    }
