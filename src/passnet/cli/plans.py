"""A plan of runs, as a table for people and as a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from passnet.cli.streams import terminal_width
from passnet.report.columns import columns, wrapped
from passnet.report.numbers import duration, whole
from passnet.report.plan import Places, Plan, Step
from passnet.report.run_time import RunTime, share_of
from passnet.report.targets import Target

_WORDS = {
    "there": "there",
    "finished": "finished and to be copied",
    "unfinished": "to resume",
    "short": "cut short",
    "missing": "missing",
    "blocked": "blocked",
}
_HEADER = ("preset", "there", "to resume", "cut short", "missing", "updates", "time of one")


def plan_text(target: Target, plan: Plan) -> str:
    """One line for each preset with its seeds by what became of them, the sums, and the time that
    what is left takes."""
    counts = Counter(_kind(step) for step in plan.steps)
    sums = ", ".join(f"{counts[kind]} {words}" for kind, words in _WORDS.items() if counts[kind])
    runs = f"{len(plan.steps)} run{'s' if len(plan.steps) > 1 else ''}"
    rows = []
    for name in target.presets:
        steps = [step for step in plan.steps if step.experiment.name == name]
        rows.append(_row(name, steps, plan.times.get(name)))
    width = terminal_width()
    below = [f"{runs}: {sums}", *_times(plan), *_cut_short(plan.steps)]
    below += [f"blocked: {step.note}" for step in plan.steps if step.state == "blocked"]
    lines = [wrapped(text, width) for text in below]
    shown = columns(_HEADER, rows, width=width, spare=("updates",))
    return "\n".join((f"{target.name}: {target.title}", shown, *lines))


def plan_record(target: Target, steps: Sequence[Step], places: Places) -> dict[str, Any]:
    """The plan as JSON values."""
    return {
        "target": target.name,
        "title": target.title,
        "runs": [
            {
                "preset": step.experiment.name,
                "seed": step.experiment.seed,
                "state": step.state,
                "update": 0 if step.run is None else step.run.reached,
                "updates": step.experiment.updates,
                "value": None
                if step.run is None or step.run.outcome is None
                else step.run.outcome.value,
                "folder": str(places.run(step.experiment)),
                "result": str(places.result(step.experiment)),
                "note": step.note,
            }
            for step in steps
        ],
    }


def _kind(step: Step) -> str:
    return "short" if step.state == "missing" and step.short is not None else step.state


def _row(name: str, steps: Sequence[Step], time: RunTime | None) -> tuple[str, ...]:
    experiment = steps[0].experiment
    length = f"{experiment.epochs} epochs" if experiment.updates is None else ""
    if experiment.updates is not None:
        length = f"{'≤ ' if experiment.patience else ''}{whole(experiment.updates)}"
    left = any(step.state in ("unfinished", "missing") for step in steps)
    return (
        name,
        _seeds(steps, "there"),
        _seeds(steps, "finished", "unfinished"),
        _seeds(steps, "short"),
        _seeds(steps, "missing", "blocked"),
        length,
        _about(time) if left else "",
    )


def _about(time: RunTime | None) -> str:
    return "not recorded" if time is None else f"{time.bound} {duration(time.seconds)}".lstrip()


def _times(plan: Plan) -> Iterator[str]:
    """How long the rest takes by what was recorded, and where."""
    left = [step for step in plan.steps if step.state in ("unfinished", "missing")]
    known = [step for step in left if step.experiment.name in plan.times]
    times = {step.experiment.name: plan.times[step.experiment.name] for step in known}
    least, most = (any(time.bound == sign for time in times.values()) for sign in "≥≤")
    if known:
        total = sum(
            times[step.experiment.name].seconds * (1 - (share_of(step.run) if step.run else 0.0))
            for step in known
        )
        bound = "about" if least == most else "at least" if least else "at most"
        places = " and ".join(sorted({time.device for time in times.values()}))
        which = f"{len(known)} of them" if len(known) < len(left) else "them"
        yield (
            f"time: {bound} {duration(total)} for {which}, one after another, judging by results "
            f"of the same presets on {places}, which other runs may have shared"
        )
    if least:
        yield "≥: the recorded runs were validated less often, which takes less time"
    if most:
        yield "≤: all updates at the recorded pace; such a run may stop early"
    unknown = len(left) - len(known)
    if unknown:
        which = f"{unknown} of them" if known else "them"
        yield f"time: unknown for {which}: no run of the preset is recorded"


def _cut_short(steps: Sequence[Step]) -> Iterator[str]:
    """What there is of runs that count as missing because they were cut short."""
    short = [(s.experiment, s.short) for s in steps if _kind(s) == "short" and s.short is not None]
    if short:
        yield "cut short: results that ran out of time, or ended at fewer updates, are run again"
    for planned, run in short:
        if planned.updates is None:
            reached = f"{whole(run.reached)} updates, less than its {planned.epochs} epochs"
        else:
            most = "at most " if planned.patience else ""
            reached = f"{whole(run.reached)} of {most}{whole(planned.updates)} updates"
        rule = "; may stop early" if planned.patience else ""
        yield f"  {planned.name} seed {planned.seed} has {reached}{rule}"


def _seeds(steps: Sequence[Step], *kinds: str) -> str:
    return ", ".join(_seed(step) for step in steps if _kind(step) in kinds)


def _seed(step: Step) -> str:
    seed, run = str(step.experiment.seed), step.run
    if step.state == "blocked":
        return f"{seed} (blocked)"
    if step.state == "finished":
        return f"{seed} (finished)"
    if step.state == "unfinished" and run is not None:
        return f"{seed} (update {whole(run.reached)})"
    failed = run is not None and run.outcome is not None and run.outcome.value is None
    return f"{seed} (failed)" if failed else seed
