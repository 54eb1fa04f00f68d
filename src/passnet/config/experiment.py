"""An experiment as one value: everything that determines a run, and what the paper says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from passnet.config.errors import ConfigurationError
from passnet.config.fields import check_range, check_types
from passnet.config.model import Model
from passnet.config.nearest import suggestion
from passnet.config.tasks import FlatMnistTask, Task, training_examples
from passnet.config.training import (
    Averaging,
    Clipping,
    Constant,
    HalveOnPlateau,
    Optimiser,
    Schedule,
    Selection,
)

_CONSTANT = Constant()
_LAST_SEED = 2**64 - 1
"""The largest that PyTorch's generators take."""


@dataclass(frozen=True)
class PaperResult:
    """What the paper prints about an experiment, and where.

    Accuracies are fractions. `relation` "below" means that the value is a bound, reached within
    `updates`, and "unlike" that it is of another measure than ours. `parameters` is the count as
    printed, such as `20.6k`; `curve` names the author's committed curve.
    """

    where: str
    metric: str
    value: float | None = None
    relation: Literal["equals", "below", "unlike"] = "equals"
    validation: float | None = None
    updates: int | None = None
    parameters: str | None = None
    figure: str | None = None
    curve: str | None = None

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True)
class Aim:
    """A score on the test data that a recipe of ours was made to reach."""

    metric: str
    value: float

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True)
class Experiment:
    """A complete experiment.

    Exactly one of `updates` and `epochs` bounds the run. `batch_size` counts the sequences of one
    update, computed in `accumulate` equal pieces. Evaluation comes every `evaluate_every` updates,
    or after every epoch when None; `patience` evaluations without a better selection metric end the
    run. On a NaN or infinite gradient `nan_policy` stops, or takes as gradient that multiple of
    the parameters (a shrink step).
    """

    name: str
    task: Task
    model: Model
    optimiser: Optimiser
    selection: Selection
    batch_size: int
    updates: int | None = None
    epochs: int | None = None
    clipping: Clipping | None = None
    nan_policy: Literal["stop"] | float = "stop"
    schedule: Schedule = _CONSTANT
    evaluate_every: int | None = None
    patience: int | None = None
    ema: Averaging | None = None
    accumulate: int = 1
    precision: Literal["float32", "bf16"] = "float32"
    seed: int = 0
    protocol: Literal["paper", "ours"] = "ours"
    paper: PaperResult | None = None
    aim: Aim | None = None
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """The metric of the result: the paper's where the paper has one."""
        return self.selection.metric if self.paper is None else self.paper.metric

    def __post_init__(self) -> None:
        check_types(self)
        counts = ("batch_size", "updates", "epochs", "evaluate_every", "patience", "accumulate")
        check_range(self, *counts, low=1)
        check_range(self, "seed", low=0, high=_LAST_SEED)
        check_range(self, "nan_policy", low=0, high=1, open_low=True, open_high=True)
        if (self.updates is None) == (self.epochs is None):
            raise ConfigurationError(
                f"updates={self.updates} and epochs={self.epochs}: give exactly one of them and "
                "none for the other"
            )
        fresh = getattr(self.task, "train_size", 1) is None
        if fresh and self.epochs is not None:
            raise ConfigurationError(
                f"epochs={self.epochs}: fresh data have no epochs: give updates instead, or a "
                "task.train_size"
            )
        if fresh and self.evaluate_every is None:
            raise ConfigurationError(
                "evaluate_every=None: fresh data have no epochs to end with an evaluation: give "
                "how many updates, or a task.train_size"
            )
        if self.batch_size % self.accumulate:
            raise ConfigurationError(
                f"accumulate: got {self.accumulate}, expected a divisor of batch_size="
                f"{self.batch_size}"
            )
        if self.model.batch_norm and self.batch_size // self.accumulate < 2:
            raise ConfigurationError(
                f"batch_size: got {self.batch_size} with accumulate={self.accumulate}, but batch "
                "norm needs two or more examples in each piece of a batch: give a larger batch or "
                "fewer pieces"
            )
        examples = training_examples(self.task)
        if examples is not None and self.batch_size > examples:
            raise ConfigurationError(
                f"batch_size: got {self.batch_size}, but there are {examples} training examples: "
                f"give at most {examples}"
            )
        for field, named in (("selection", self.selection), ("aim", self.aim)):
            if named is not None and named.metric not in self.task.metrics:
                raise ConfigurationError(
                    f"{field}.metric: got {named.metric!r}, but the {self.task.kind} task "
                    f"has {', '.join(self.task.metrics)}; "
                    f"{suggestion(named.metric, self.task.metrics)}"
                )
        if not getattr(self.task, "hold_out", True):
            self._check_unvalidated()
        if (self.model.cell == "highway") != isinstance(self.task, FlatMnistTask):
            raise ConfigurationError(
                f"model.cell: got {self.model.cell!r} with the {self.task.kind} task, but highway "
                "reads flat images and every other cell reads sequences"
            )

    def _check_unvalidated(self) -> None:
        """Where validation data are trained on, nothing may be decided by scores on them."""
        deciding = {
            "selection.keep": self.selection.keep == "best",
            "patience": self.patience is not None,
            "schedule": isinstance(self.schedule, HalveOnPlateau),
        }
        for field, decides in deciding.items():
            if decides:
                raise ConfigurationError(
                    f"task.hold_out: got False, but {field} decides by scores on the validation "
                    "data, which are trained on then: set selection.keep='last', patience=none and "
                    "a schedule of updates"
                )
