"""Groups of runs as JSON values."""

from __future__ import annotations

from typing import Any

from passnet.report.groups import Group
from passnet.report.paper import compare
from passnet.report.read import Run


def curve_metric(group: Group) -> str:
    """The metric of the result where validation has it, else the one that selects."""
    known = {name for run in group.runs for point in run.evaluations for name in point.scores}
    return group.metric if group.metric in known else group.experiment.selection.metric


def record(group: Group) -> dict[str, Any]:
    """What is known of a group, its runs and their curves."""
    found, verdict, paper = group.summary(), compare(group), group.experiment.paper
    return {
        "preset": group.name,
        "changes": None if group.changes is None else list(group.changes),
        "protocol": group.experiment.protocol,
        "metric": group.metric,
        "mean": None if found is None else found.mean,
        "median": None if found is None else found.median,
        "spread": None if found is None else found.spread,
        "seeds_finished": len(group.finished),
        "seeds_failed": len(group.failed),
        "seeds_unfinished": len(group.unfinished),
        "paper_value": None if paper is None else paper.value,
        "paper_relation": None if paper is None else paper.relation,
        "beside_the_paper": None if verdict is None else verdict.word,
        "chance": group.chance(),
        "runs": [_run_record(run, curve_metric(group)) for run in group.runs],
        "repeated": [str(run.path) for run in group.repeated],
    }


def _run_record(run: Run, metric: str) -> dict[str, Any]:
    outcome = run.outcome
    result = {
        key: None if outcome is None else getattr(outcome, key)
        for key in (
            "value",
            "test",
            "validation",
            "parameters",
            "seconds",
            "device",
            "backend",
            "commit",
            "selected_update",
            "stopped",
            "recovered",
        )
    }
    return {
        "folder": str(run.path),
        "seed": run.experiment.seed,
        "finished": outcome is not None,
        "updates": run.reached,
        **result,
        "curve": {
            "metric": metric,
            "points": [[point.update, point.scores.get(metric)] for point in run.evaluations],
        },
    }
