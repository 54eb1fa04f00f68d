"""Which runs a table still needs: what is among the results, what goes on, what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from passnet.config import Experiment, differences
from passnet.config.run_folder import EXPERIMENT_FILE
from passnet.experiments import get
from passnet.report.groups import as_often, cut_short, group_runs, out_of_time
from passnet.report.overview import all_runs
from passnet.report.read import Run, find_runs, read_run
from passnet.report.run_time import RunTime, run_time

State = Literal["there", "finished", "unfinished", "missing", "blocked"]


@dataclass(frozen=True)
class Places:
    """The folder of results, and the folder in which runs train with their checkpoints."""

    results: Path
    runs: Path

    def result(self, experiment: Experiment) -> Path:
        """Where the result of a run belongs."""
        return self.results / experiment.name / f"seed-{experiment.seed}"

    def run(self, experiment: Experiment) -> Path:
        """Where a run trains."""
        return self.runs / experiment.name / f"seed-{experiment.seed}"


@dataclass(frozen=True)
class Step:
    """One run of a plan.

    state: `there` among the results; `finished` and only to be copied there; `unfinished` and to go
    on; `missing`; or `blocked` by a run of other settings, which `note` describes.
    run: what is there of it.
    short: of a run that is missing, the longest of the results that was cut short.
    """

    experiment: Experiment
    state: State
    run: Run | None = None
    note: str = ""
    short: Run | None = None


@dataclass(frozen=True)
class Plan:
    """The steps, and how long such runs took by preset, where some are among the results."""

    steps: list[Step]
    times: dict[str, RunTime]


def read_plan(presets: Sequence[str], seeds: Sequence[int], places: Places) -> Plan:
    """The plan for what is in the folders now: a step for each preset and seed."""
    results = find_runs([places.results]) if places.results.is_dir() else []
    wanted = [replace(get(name), seed=seed) for name in presets for seed in seeds]
    begun = [path for path in map(places.run, wanted) if (path / EXPERIMENT_FILE).is_file()]
    at = {run.path: run for run in (*results, *map(read_run, begun))}
    groups = [g for g in group_runs(results) if g.is_preset and g.name in presets]
    ended = [run for group in groups for run in all_runs(group) if run.outcome is not None]
    steps = []
    for experiment in wanted:
        own = (experiment.name, experiment.seed)
        runs = [run for run in ended if (run.experiment.name, run.experiment.seed) == own]
        whole = [run for run in runs if not cut_short(run, experiment)]
        if whole:
            steps.append(Step(experiment, "there", whole[0]))
        else:
            longest = max(runs, key=lambda run: run.reached, default=None)
            steps.append(replace(_open_step(experiment, places, at), short=longest))
    times = {group.name: time for group in groups if (time := run_time(group)) is not None}
    return Plan(steps, times)


def _open_step(experiment: Experiment, places: Places, at: dict[Path, Run]) -> Step:
    for place in (places.result(experiment), places.run(experiment)):
        if place in at and _changes(at[place], experiment):
            changes = ", ".join(_changes(at[place], experiment))
            return Step(experiment, "blocked", at[place], f"{place} holds a run with {changes}")
    run = at.get(places.run(experiment))
    if run is None:
        return Step(experiment, "missing")
    # A run that began goes on as it began.
    ended = run.outcome is not None and not out_of_time(run)
    return Step(run.experiment, "finished" if ended else "unfinished", run)


def _changes(run: Run, experiment: Experiment) -> list[str]:
    """The settings of a run that are not the experiment's."""
    found = differences(experiment, as_often(run.experiment))
    return [f"{key}={new}" for key, (_, new) in found.items()]
