"""How long a run of a preset takes, by what results of it record."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from passnet.config import Experiment, differences
from passnet.config.run_folder import DIVERGED
from passnet.report.groups import as_long, as_often, cut_short
from passnet.report.read import Run


@dataclass(frozen=True)
class RunTime:
    """Seconds from the start of a run to its end, on one device.

    at_least: the recorded runs were evaluated more rarely, which takes less time.
    at_most: all recorded ones were cut short, and this is what the largest number of updates would
    take at their pace; the run may end before it by its own rule.
    """

    seconds: float
    device: str
    runs: int
    at_least: bool = False
    at_most: bool = False


def run_time(preset: Experiment, results: Iterable[Run]) -> RunTime | None:
    """What results of the preset's settings took; None where there are none.

    Of several devices the one with most runs counts. Runs that were cut short count where no other
    is there, and those that diverged never do.
    """
    like = [run for run in results if _is_like(run, preset)]
    if not like:
        return None
    devices = Counter(run.outcome.device for run in like if run.outcome)
    device = devices.most_common(1)[0][0]
    like = [run for run in like if run.outcome and run.outcome.device == device]
    whole = [run for run in like if not cut_short(run, preset)]
    seconds = [run.outcome.seconds for run in whole if run.outcome]
    if not whole:
        seconds = [
            run.outcome.seconds / share for run in like if run.outcome and (share := share_of(run))
        ]
    if not seconds:
        return None
    every = [run.experiment.evaluate_every or 0 for run in whole or like]
    return RunTime(
        seconds=statistics.fmean(seconds),
        device=device,
        runs=len(seconds),
        at_least=max(every) > (preset.evaluate_every or max(every)),
        at_most=not whole and preset.patience is not None,
    )


def share_of(run: Run) -> float:
    """How much of a run is done, of the most that its preset allows."""
    planned = as_long(run.experiment)
    if planned.updates is not None:
        return run.reached / planned.updates
    epochs = max((point.epoch or 0.0 for point in run.evaluations), default=0.0)
    return epochs / (planned.epochs or 1)


def _is_like(run: Run, preset: Experiment) -> bool:
    if run.outcome is None or run.outcome.stopped.startswith(DIVERGED):
        return False
    planned = replace(as_long(as_often(run.experiment)), seed=preset.seed)
    return planned.name == preset.name and not differences(preset, planned)
