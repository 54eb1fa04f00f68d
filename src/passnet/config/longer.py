"""More updates than a run began with: where they change nothing before its old end."""

from __future__ import annotations

from passnet.config.experiment import Experiment
from passnet.config.training import Cosine


def looks_ahead(experiment: Experiment) -> bool:
    """Whether updates depend on how many there are to be."""
    return isinstance(experiment.schedule, Cosine) or experiment.ema is not None


def why_not_longer(before: Experiment, now: Experiment) -> str | None:
    """Why a run cannot go on to the updates of `now`, from which it differs in nothing else.

    None where it can, and ends as if it had been meant to from the start.
    """
    old, new, every = before.updates, now.updates, before.evaluate_every
    if old is None or new is None or new < old:
        return "a run can be given more updates, not fewer or epochs instead"
    if looks_ahead(before):
        return "what it did depends on how many updates there were to be (schedule, ema)"
    if every is None or old % every:
        return f"its last evaluation, after update {old}, is none that a longer run would have had"
    return None
