"""What became of a group of runs, in a few words for a table."""

from __future__ import annotations

import re
from statistics import fmean

from passnet.config.run_folder import DIVERGED
from passnet.report import numbers
from passnet.report.groups import Group, summarise
from passnet.report.read import Outcome


def seeds_text(group: Group) -> str:
    """How many seeds have a score or, where there is a bound, are below it, of those finished."""
    scored, count = len(group.scored), len(group.finished)
    parts = [str(count)]
    if group.bound is not None:
        done = "solved it" if group.experiment.task.kind == "copy" else "reached it"
        parts = [f"{len(group.within)} of {count} {done}"]
    elif scored < count:
        parts = [f"{scored} of {count}", *fates(group)[:1]]
    if group.unfinished:
        parts.append(f"{len(group.unfinished)} unfinished")
    return ", ".join(parts)


def fates(group: Group) -> list[str]:
    """How many seeds failed, and how, and how many are not finished."""
    parts = []
    if group.failed:
        ends = [run.outcome.stopped for run in group.failed if run.outcome]
        how = "diverged" if all(end.startswith(DIVERGED) for end in ends) else "failed"
        parts.append(f"{len(group.failed)} {how}")
    if group.unfinished:
        parts.append(f"{len(group.unfinished)} unfinished")
    return parts


def updates_text(group: Group) -> str:
    """Updates of the runs with a score, or of all finished ones, as a range where they differ."""
    runs = group.scored or group.finished
    taken = summarise(run.outcome.updates for run in runs if run.outcome)
    if taken is None:
        return numbers.ABSENT
    if taken.least == taken.most:
        return numbers.whole(taken.most)
    return f"{numbers.whole(taken.least)}\u2013{numbers.whole(taken.most)}"


def time_text(group: Group) -> str:
    """Mean wall time of a run with a score, or of any finished one where none has, apart for each
    kind of device."""
    taken: dict[str, list[float]] = {}
    for run in group.scored or group.finished:
        if run.outcome:
            kind = re.split(r"[:\s]", run.outcome.device)[0]
            taken.setdefault(kind, []).append(run.outcome.seconds)
    means = {kind: numbers.duration(fmean(seconds)) for kind, seconds in taken.items()}
    if len(means) < 2:
        return "".join(means.values()) or numbers.ABSENT
    return ", ".join(f"{mean} on {kind}" for kind, mean in means.items())


def places_text(group: Group) -> str:
    """The devices and backends of the finished runs."""
    pairs = {f"{r.outcome.device}, {r.outcome.backend}" for r in group.finished if r.outcome}
    return "; ".join(sorted(pairs)) or numbers.ABSENT


def no_score(outcome: Outcome) -> str:
    """Why a finished run has no score."""
    if outcome.stopped.startswith(DIVERGED):
        return f"diverged at update {numbers.whole(outcome.updates)}"
    return "not a number"


def second_runs(group: Group) -> str:
    """The scores of finished runs that are left out because their seed is there already."""
    runs = [(run.experiment.seed, run.outcome) for run in group.repeated if run.outcome]
    if not runs:
        return ""
    seeds = sorted({seed for seed, _ in runs})
    scores = [
        no_score(outcome) if outcome.value is None else numbers.score(group.metric, outcome.value)
        for _, outcome in runs
    ]
    what = "a further run" if len(runs) == 1 else "further runs"
    *before, last = map(str, seeds)
    which = f"seeds {', '.join(before)} and {last}" if before else f"seed {last}"
    return f"{what} of {which}, not counted: {', '.join(scores)}"


def standing(group: Group | None) -> str:
    """What to say where there is no score: not run, how far it is, or why there is none."""
    if group is None:
        return "not run yet"
    if group.finished:
        reasons = [no_score(run.outcome) for run in group.finished if run.outcome]
        return "; ".join(dict.fromkeys(reasons))
    reached = max((run.reached for run in group.unfinished), default=0)
    total = group.experiment.updates
    bound = "" if total is None else f" of {numbers.whole(total)}"
    return f"unfinished, update {numbers.whole(reached)}{bound}"
