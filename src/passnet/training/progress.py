"""How far a run is, and what the evaluations so far ask of it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, final

from passnet.config import Experiment, HalveOnPlateau, Selection
from passnet.training.plain_json import plain


@final
@dataclass
class Progress:
    """Every number of a run that is not in a tensor.

    `evaluated` and `logged` are the updates of the last evaluation and of the last training line;
    `bad` counts evaluations since the best, `plateau` those since the best or the last halving.
    """

    update: int = 0
    evaluated: int = 0
    logged: int = 0
    last_scores: dict[str, float | None] = field(default_factory=dict)
    best_value: float | None = None
    best_update: int | None = None
    best_scores: dict[str, float | None] = field(default_factory=dict)
    bad: int = 0
    plateau: int = 0
    halvings: int = 0
    averaged: int = 0
    recovered: int = 0
    seconds: float = 0.0
    stopped: str | None = None

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """What an evaluation means: `better` parameters to keep, or going `back` to those kept."""

    better: bool
    back: bool = False


def judge(progress: Progress, scores: dict[str, float], *, experiment: Experiment) -> Verdict:
    """Enter the validation scores at `progress.update` and say what follows."""
    value = scores[experiment.selection.metric]
    progress.evaluated = progress.update
    progress.last_scores = plain(scores)
    if improves(value, progress.best_value, mode=experiment.selection.mode):
        progress.best_value = value
        progress.best_update = progress.update
        progress.best_scores = progress.last_scores
        progress.bad = progress.plateau = 0
        return Verdict(better=True)
    progress.bad += 1
    progress.plateau += 1
    if experiment.patience is not None and progress.bad >= experiment.patience:
        progress.stopped = f"patience: {progress.bad} evaluations without a better one"
        return Verdict(better=False)
    schedule = experiment.schedule
    if isinstance(schedule, HalveOnPlateau) and progress.plateau >= schedule.patience:
        if progress.halvings == schedule.halvings:
            progress.stopped = f"halvings: all {schedule.halvings} are spent"
            return Verdict(better=False)
        progress.halvings += 1
        progress.plateau = 0
        return Verdict(better=False, back=schedule.return_to_best)
    return Verdict(better=False)


def improves(value: float, best: float | None, *, mode: Literal["min", "max"]) -> bool:
    """Whether a value is better than the best so far; one that is not finite never is."""
    if not math.isfinite(value):
        return False
    return best is None or (value < best if mode == "min" else value > best)


def keeps_best(selection: Selection, progress: Progress) -> bool:
    """Whether the result is the best parameters rather than the last."""
    return selection.keep == "best" and progress.best_update is not None
