"""How an experiment is trained: optimiser, clipping, schedule, averaging, selection as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from passnet.config.errors import ConfigurationError
from passnet.config.fields import check_range, check_types
from passnet.config.metrics import METRICS


@dataclass(frozen=True)
class RmsProp:
    """The paper's RMSProp: a = decay a + (1 - decay) g^2, step learning_rate g / sqrt(a + epsilon).

    The accumulator `a` starts at `accumulator_start`, not at 0, and epsilon is inside the root;
    `weight_decay` adds that multiple of the parameter to its gradient.
    """

    learning_rate: float
    decay: float = 0.9
    epsilon: float = 0.0
    accumulator_start: float = 1e-3
    weight_decay: float = 0.0

    kind: ClassVar[str] = "rmsprop"

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "learning_rate", low=0, open_low=True)
        check_range(self, "decay", low=0, high=1, open_high=True)
        check_range(self, "epsilon", "accumulator_start", "weight_decay", low=0)


@dataclass(frozen=True)
class Adam:
    """Adam; `weight_decay` adds that multiple of the parameter to its gradient."""

    learning_rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    kind: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        _check_adam(self)


@dataclass(frozen=True)
class AdamW:
    """Adam whose `weight_decay` shrinks the parameters themselves, apart from the gradient."""

    learning_rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.01

    kind: ClassVar[str] = "adamw"

    def __post_init__(self) -> None:
        _check_adam(self)


def _check_adam(optimiser: Adam | AdamW) -> None:
    check_types(optimiser)
    check_range(optimiser, "learning_rate", low=0, open_low=True)
    check_range(optimiser, "epsilon", "weight_decay", low=0)
    if not all(0 <= beta < 1 for beta in optimiser.betas):
        raise ConfigurationError(
            f"betas: got {optimiser.betas}, expected two numbers at least 0 and below 1"
        )


Optimiser = RmsProp | Adam | AdamW


@dataclass(frozen=True)
class ClipNorm:
    """Scale the whole gradient so that its norm is at most `limit`."""

    limit: float = 1.0

    kind: ClassVar[str] = "norm"

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "limit", low=0, open_low=True)


@dataclass(frozen=True)
class ClipComponents:
    """Clip every component of the gradient to -limit .. limit."""

    limit: float = 1.0

    kind: ClassVar[str] = "component"

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "limit", low=0, open_low=True)


Clipping = ClipNorm | ClipComponents


@dataclass(frozen=True)
class Constant:
    """The learning rate stays as it is."""


@dataclass(frozen=True)
class HalveOnPlateau:
    """After `patience` evaluations without a better selection metric, halve the rate.

    With `return_to_best` training also goes back to the best parameters. Training stops when
    `halvings` halvings are spent and the patience runs out again.
    """

    patience: int = 3
    halvings: int = 14
    return_to_best: bool = True

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "patience", low=1)
        check_range(self, "halvings", low=0)


@dataclass(frozen=True)
class Cosine:
    """A linear rise over `warmup` updates, then half a cosine down to `final` times the peak."""

    warmup: int = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "warmup", low=0)
        check_range(self, "final", low=0, high=1)


Schedule = Constant | HalveOnPlateau | Cosine


@dataclass(frozen=True)
class Averaging:
    """An exponential moving average of the parameters, evaluated and kept in their place.

    It begins after the fraction `start` of the run.
    """

    decay: float = 0.999
    start: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "decay", "start", low=0, high=1, open_high=True)


@dataclass(frozen=True)
class Selection:
    """Which parameters are the result: those with the best validation `metric`, or the last."""

    metric: str
    mode: Literal["min", "max"]
    keep: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        check_types(self)
        metric = METRICS.get(self.metric)
        if metric is not None and self.mode != metric.better:
            raise ConfigurationError(
                f"mode: got {self.mode!r} with metric {self.metric!r}, which would select the "
                f"worst: give {metric.better!r}"
            )
