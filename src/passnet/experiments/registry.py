"""Every preset by name."""

from __future__ import annotations

from typing import Any

from passnet.config.experiment import Experiment
from passnet.config.nearest import nearest
from passnet.config.parameters import experiment_parameter_counts
from passnet.experiments import (
    addition,
    beyond,
    characters,
    copy_memory,
    highway,
    psmnist,
    quick,
)

_MODULES = (copy_memory, addition, psmnist, characters, highway, beyond, quick)
_PRESETS: dict[str, Experiment] = {
    experiment.name: experiment for module in _MODULES for experiment in module.PRESETS
}


class UnknownPreset(KeyError):
    """A name no preset has; the text suggests the nearest."""

    def __str__(self) -> str:
        return self.args[0]


def names() -> tuple[str, ...]:
    """The names of all presets, the paper's first."""
    return tuple(_PRESETS)


def get(name: str) -> Experiment:
    """The preset of that name."""
    if name in _PRESETS:
        return _PRESETS[name]
    raise UnknownPreset(f"no preset is called {name!r}: {_suggestion(name)}")


def listing() -> list[dict[str, Any]]:
    """One plain row for each preset, as `list --json` prints it."""
    return [_row(experiment) for experiment in _PRESETS.values()]


def _row(experiment: Experiment) -> dict[str, Any]:
    counts = experiment_parameter_counts(experiment)
    paper = experiment.paper
    return {
        "name": experiment.name,
        "task": experiment.task.kind,
        "cell": experiment.model.cell,
        "matrix": experiment.model.structure,
        "size": experiment.model.size,
        "protocol": experiment.protocol,
        "metric": experiment.metric,
        "paper_value": None if paper is None else paper.value,
        "paper_relation": None if paper is None else paper.relation,
        "table": None if paper is None else paper.where,
        "paper_parameters_printed": None if paper is None else paper.parameters,
        "parameters_paper": counts.paper,
        "parameters": counts.model,
    }


def _suggestion(name: str) -> str:
    inside = [known for known in _PRESETS if known.startswith(f"{name.rstrip('/')}/")]
    if inside:
        return f"it is a group, choose one of {', '.join(inside)}"
    found = nearest(name, _PRESETS)
    if found is None:
        tails = {known.partition("/")[2]: known for known in reversed(_PRESETS)}
        tail = nearest(name, tails)
        found = tails[tail] if tail else None
    hint = f"perhaps you meant {found!r}; " if found else ""
    return f"{hint}`passnet list` shows them all"
