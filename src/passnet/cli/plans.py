"""A plan of runs, as a table for people and as a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from passnet.cli.tables import table

if TYPE_CHECKING:
    from passnet.report.plan import Places, Step
    from passnet.report.targets import Target

_WORDS = {
    "there": "there",
    "finished": "finished and to be copied",
    "unfinished": "to go on",
    "missing": "missing",
    "blocked": "blocked",
}


def plan_text(target: Target, steps: Sequence[Step]) -> str:
    """One line for each preset with its seeds by what became of them, and the sums."""
    counts = Counter(step.state for step in steps)
    sums = ", ".join(f"{counts[state]} {words}" for state, words in _WORDS.items() if counts[state])
    runs = f"{len(steps)} run{'s' if len(steps) > 1 else ''}"
    header = ("preset", "seeds there", "to go on", "missing", "updates")
    rows = [_row(name, [s for s in steps if s.experiment.name == name]) for name in target.presets]
    lines = [f"{target.name}: {target.title}", table(header, rows), f"{runs}: {sums}"]
    lines += [f"blocked: {step.note}" for step in steps if step.state == "blocked"]
    return "\n".join(lines)


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


def _row(name: str, steps: Sequence[Step]) -> tuple[str, ...]:
    experiment = steps[0].experiment
    length = experiment.updates or f"{experiment.epochs} epochs"
    return (
        name,
        _seeds(steps, "there"),
        _seeds(steps, "finished", "unfinished"),
        _seeds(steps, "missing", "blocked"),
        str(length),
    )


def _seeds(steps: Sequence[Step], *states: str) -> str:
    return ", ".join(_seed(step) for step in steps if step.state in states) or "-"


def _seed(step: Step) -> str:
    seed, run = str(step.experiment.seed), step.run
    if step.state == "blocked":
        return f"{seed} (blocked)"
    if step.state == "finished":
        return f"{seed} (finished)"
    if step.state == "unfinished" and run is not None:
        return f"{seed} (update {run.reached})"
    failed = run is not None and run.outcome is not None and run.outcome.value is None
    return f"{seed} (failed)" if failed else seed
