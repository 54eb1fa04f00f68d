"""A spread of carry biases over time scales instead of one number for every unit."""

from __future__ import annotations

from dataclasses import dataclass

from passnet.config.fields import check_range, check_types


@dataclass(frozen=True)
class Chrono:
    """Chrono initialisation: carry biases log u, u uniform in 1 .. t_max - 1.

    Units then start with memories of about 1 to t_max steps.
    """

    t_max: float

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "t_max", low=2, open_low=True)
