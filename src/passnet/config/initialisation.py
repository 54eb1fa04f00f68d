"""How parameters start: the schemes of the paper and ours, by name."""

from __future__ import annotations

from typing import Literal, get_args

Initialisation = Literal[
    "glorot", "orthogonal-normal", "uniform", "quasi-orthogonal", "balanced", "torch"
]
INITIALISATIONS: tuple[str, ...] = get_args(Initialisation)


def check_initialisation(name: str) -> None:
    """Raise ValueError for a scheme that does not exist."""
    if name not in INITIALISATIONS:
        known = ", ".join(map(repr, INITIALISATIONS))
        raise ValueError(f"init={name!r} is unknown: choose one of {known}")
