"""How long a run of a preset takes, by what results of it record."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from passnet.report.groups import Group, as_long, cut_short
from passnet.report.read import Run


@dataclass(frozen=True)
class RunTime:
    """Seconds from the start of a run to its end, on one device.

    bound: ≥ where the recorded runs were evaluated more rarely, which takes less time; ≤ where all
    of them were cut short, and this is what the largest number of updates would take at their pace,
    though the run may end before by its own rule.
    """

    seconds: float
    device: str
    bound: Literal["", "≥", "≤"] = ""


def run_time(group: Group) -> RunTime | None:
    """What the runs of a preset took, those that were cut short where no other is there; of several
    devices the one with most runs counts. None where there are none."""
    preset = group.experiment
    every = [(run, run.outcome) for run in (*group.scored, *group.repeated) if run.outcome]
    done = [(run, outcome) for run, outcome in every if outcome.value is not None]
    if not done:
        return None
    device = statistics.mode(outcome.device for _, outcome in done)
    there = [(run, outcome) for run, outcome in done if outcome.device == device]
    whole = [(run, outcome) for run, outcome in there if not cut_short(run, preset)]
    seconds = [outcome.seconds for _, outcome in whole]
    if not whole:
        seconds = [outcome.seconds / share_of(run) for run, outcome in there if share_of(run)]
    if not seconds:
        return None
    bound: Literal["", "≥", "≤"] = ""
    rarest = max(run.experiment.evaluate_every or 0 for run, _ in whole or there)
    if not whole and preset.patience is not None:
        bound = "≤"
    elif rarest > (preset.evaluate_every or rarest):
        bound = "≥"
    return RunTime(statistics.fmean(seconds), device, bound)


def share_of(run: Run) -> float:
    """How much of a run is done, of the most that its preset allows."""
    planned = as_long(run.experiment)
    if planned.updates is not None:
        return run.reached / planned.updates
    epochs = max((point.epoch or 0.0 for point in run.evaluations), default=0.0)
    return epochs / (planned.epochs or 1)
