"""Runs of one experiment that differ only in their seed, and what they say together."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from passnet.config import (
    Experiment,
    HalveOnPlateau,
    differences,
    identity,
    looks_ahead,
)
from passnet.config.run_folder import TIME
from passnet.experiments import get, names
from passnet.report.read import Run

SOLVED = 1e-3
"""Nats below which the paper calls a memory task solved."""


@dataclass(frozen=True)
class Summary:
    """A score over seeds; `spread` is the sample standard deviation, None for a single seed."""

    mean: float
    median: float
    spread: float | None
    least: float
    most: float
    count: int


@dataclass(frozen=True)
class Group:
    """The runs of one experiment, one for each seed.

    changes: settings that differ from the preset of that name, as `key=value`; None where no preset
    has the name.
    repeated: further runs of a seed that is already there; no mean counts them.
    remarks: how runs of the preset were looked at or ended otherwise than it asks for.
    """

    experiment: Experiment
    changes: tuple[str, ...] | None
    runs: tuple[Run, ...]
    repeated: tuple[Run, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The preset's name."""
        return self.experiment.name

    @property
    def label(self) -> str:
        """The name and what was changed."""
        return " ".join((self.name, *(self.changes or ())))

    @property
    def is_preset(self) -> bool:
        """Whether these runs are the preset itself, so that they stand beside the paper's row."""
        return self.changes == ()

    @property
    def finished(self) -> tuple[Run, ...]:
        """Runs with a result."""
        return tuple(run for run in self.runs if run.outcome is not None)

    @property
    def scored(self) -> tuple[Run, ...]:
        """Finished runs whose score is a number: those that did not diverge, as a rule."""
        return tuple(run for run in self.finished if run.outcome and run.outcome.value is not None)

    @property
    def unfinished(self) -> tuple[Run, ...]:
        """Runs that are still going on, or were left."""
        return tuple(run for run in self.runs if run.outcome is None)

    @property
    def failed(self) -> tuple[Run, ...]:
        """Finished runs that diverged, whose score is no number, or that miss the paper's bound.

        The bound is the preset's: runs with other settings were not held to it.
        """
        bounded = self.is_preset or self.changes is None
        return tuple(run for run in self.finished if _failed(run, bounded=bounded))

    @property
    def metric(self) -> str:
        """The metric of the result."""
        return self.experiment.metric

    @property
    def bound(self) -> float | None:
        """What a test score has to be below: the paper's bound or, on a memory task for which it
        prints none, what it calls solved."""
        paper = self.experiment.paper
        if paper is not None and paper.value is not None:
            return paper.value if paper.relation == "below" else None
        return SOLVED if self.experiment.task.kind == "copy" else None

    @property
    def within(self) -> tuple[Run, ...]:
        """The finished runs below the bound, none where there is none."""
        bound = self.bound
        if bound is None:
            return ()
        values = ((run, run.outcome.value) for run in self.finished if run.outcome)
        return tuple(run for run, value in values if value is not None and value < bound)

    def summary(
        self, metric: str | None = None, *, split: Literal["test", "validation"] = "test"
    ) -> Summary | None:
        """A score over all finished seeds where it is a number, or None where there is none."""
        values = []
        for run in self.finished:
            assert run.outcome is not None
            if metric is None:
                values.append(run.outcome.value)
            else:
                values.append(getattr(run.outcome, split).get(metric))
        return summarise(value for value in values if value is not None)

    def highest(self, metric: str) -> Summary | None:
        """The highest score on validation data that each finished run ever had."""
        scores = (
            [point.scores[metric] for point in run.evaluations if metric in point.scores]
            for run in self.finished
        )
        known = ([value for value in values if value is not None] for values in scores)
        return summarise(max(values) for values in known if values)

    def chance(self, metric: str | None = None) -> float | None:
        """The score of a model without memory."""
        for run in self.finished:
            assert run.outcome is not None
            value = run.outcome.chance.get(metric or self.metric)
            if value is not None:
                return value
        return None


def summarise(values: Iterable[float]) -> Summary | None:
    """Mean, spread and range of some numbers; None of none."""
    known = list(values)
    if not known:
        return None
    spread = statistics.stdev(known) if len(known) > 1 else None
    mean, median = statistics.fmean(known), statistics.median(known)
    return Summary(mean, median, spread, min(known), max(known), len(known))


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Runs by experiment: presets in their own order, then changed ones, then the rest.

    Of several runs of one seed a finished one counts, of those the longest, and then the first.
    """
    collected: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        key = (run.experiment.name, identity(replace(_as_planned(run.experiment), seed=0)))
        collected.setdefault(key, []).append(run)
    groups = [_group(members) for members in collected.values()]
    order = {name: place for place, name in enumerate(names())}
    return sorted(
        groups,
        key=lambda group: (
            order.get(group.name, len(order)),
            not group.is_preset,
            group.label,
        ),
    )


def first_below(run: Run, metric: str, bound: float) -> int | None:
    """The first evaluated update whose validation score is below a bound."""
    for point in run.evaluations:
        value = point.scores.get(metric)
        if value is not None and value < bound:
            return point.update
    return None


def _group(members: list[Run]) -> Group:
    by_seed: dict[int, Run] = {}
    for run in sorted(members, key=_preference):
        by_seed.setdefault(run.experiment.seed, run)
    chosen = tuple(by_seed[seed] for seed in sorted(by_seed))
    kept = {id(run) for run in chosen}
    experiment = _as_planned(chosen[0].experiment)
    changes = _changes(experiment)
    if changes == ():  # what a preset says of the paper may have been corrected since
        preset = get(experiment.name)
        said = {"paper": preset.paper, "aim": preset.aim, "notes": preset.notes}
        experiment = replace(experiment, protocol=preset.protocol, **said)
    elif changes:
        experiment = replace(experiment, protocol="ours")
    return Group(
        experiment=experiment,
        changes=changes,
        runs=chosen,
        repeated=tuple(run for run in members if id(run) not in kept),
        remarks=tuple(_remarks(experiment, chosen)),
    )


def _preference(run: Run) -> tuple:
    """Smaller for a run that rather counts: finished, not for want of time, the longest."""
    taken = 0 if run.outcome is None else run.outcome.updates
    return run.outcome is None, out_of_time(run), -(run.experiment.updates or 0), -taken


def out_of_time(run: Run) -> bool:
    """Whether a run has a result for want of time, and can go on."""
    return run.outcome is not None and run.outcome.stopped.startswith(TIME)


def _remarks(planned: Experiment, runs: Iterable[Run]) -> Iterator[str]:
    if planned.paper is not None and planned.paper.relation == "unlike":
        yield "the paper's number is of another measure"
    rarest = max(run.experiment.evaluate_every or 0 for run in runs)
    if rarest > (planned.evaluate_every or rarest):
        rest = "; otherwise the paper's protocol" if planned.protocol == "paper" else ""
        yield f"validated every {rarest} updates, not {planned.evaluate_every}{rest}"
    ends = sorted({run.outcome.updates for run in runs if run.outcome and cut_short(run, planned)})
    if ends:
        yield f"cut short at {' and '.join(map(str, ends))} updates"


def cut_short(run: Run, planned: Experiment) -> bool:
    """Whether a finished run ended for want of time, or at a lower cap than its preset's."""
    assert run.outcome is not None
    own = run.experiment.updates
    return out_of_time(run) or (own != planned.updates and own == run.outcome.updates)


def _as_planned(experiment: Experiment) -> Experiment:
    return as_long(as_often(experiment))


def as_often(experiment: Experiment) -> Experiment:
    """The experiment, evaluated as often as its preset where that changes only what is seen.

    Fewer looks at the same training leave fewer parameters to choose from; where a look may change
    the training or end it, it is another experiment.
    """
    preset = get(experiment.name) if experiment.name in names() else None
    every, own = experiment.evaluate_every, None if preset is None else preset.evaluate_every
    steers = experiment.patience is not None or isinstance(experiment.schedule, HalveOnPlateau)
    if steers or every is None or own is None or every % own:
        return experiment
    return replace(experiment, evaluate_every=own)


def as_long(experiment: Experiment) -> Experiment:
    """The experiment with the cap of its preset where a look at validation is to end it.

    A lower cap changes no update before it: such a run is the preset's, cut short before validation
    would have ended it.
    """
    preset = get(experiment.name) if experiment.name in names() else None
    if preset is None or preset.patience is None or preset.updates is None:
        return experiment
    if (
        looks_ahead(experiment)
        or experiment.updates is None
        or experiment.updates >= preset.updates
    ):
        return experiment
    return replace(experiment, updates=preset.updates)


def _changes(experiment: Experiment) -> tuple[str, ...] | None:
    if experiment.name not in names():
        return None
    preset = replace(get(experiment.name), seed=experiment.seed)
    return tuple(f"{key}={new}" for key, (_, new) in differences(preset, experiment).items())


def _failed(run: Run, *, bounded: bool) -> bool:
    outcome, paper = run.outcome, run.experiment.paper
    assert outcome is not None
    if outcome.value is None:
        return True
    if not bounded or paper is None or paper.value is None or paper.relation != "below":
        return False
    return not outcome.value < paper.value
