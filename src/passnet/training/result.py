"""The result of a run: one number beside the paper's, and what it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from passnet.config.fields import required
from passnet.config.run_folder import DIVERGED
from passnet.training.time_limit import given_minutes


@dataclass(frozen=True)
class Result:
    """What `result.json` holds; `value` is the test score, None where it is not a number.

    A run that diverged was not tested: it has no value, and `updates` is where it broke.

    selected_update: the update whose parameters were tested.
    stopped: why the run ended.
    recovered: how many broken gradients became shrink steps.
    weights_sha256: of `weights.safetensors`, the tested parameters.
    """

    preset: str
    seed: int
    metric: str
    value: float | None
    paper_value: float | None
    paper_relation: str | None
    updates: int
    parameters: int
    seconds: float
    device: str
    backend: str
    commit: str | None
    protocol: str
    task: str
    selected_update: int | None
    stopped: str
    recovered: int = 0
    test: dict[str, float | None] = field(default_factory=dict)
    validation: dict[str, float | None] = field(default_factory=dict)
    chance: dict[str, float | None] = field(default_factory=dict)
    weights_sha256: str | None = None

    @property
    def diverged(self) -> bool:
        """Whether the run ended at a gradient that is not finite."""
        return self.stopped.startswith(DIVERGED)

    @property
    def cut_short(self) -> bool:
        """Whether it could have gone on with more time."""
        return given_minutes(self.stopped) is not None

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @staticmethod
    def of(record: dict[str, Any]) -> Result:
        """The result a record holds; keys of later versions are left out.

        Raises KeyError for one that is missing.
        """
        known = record.keys() & {item.name for item in fields(Result)}
        return Result(**{name: record[name] for name in (*required(Result), *known)})
