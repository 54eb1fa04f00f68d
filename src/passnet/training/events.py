"""What a run tells while it goes on: events, and the two plainest listeners."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from passnet.training.result import Result


@dataclass(frozen=True)
class Started:
    """Everything is built. `update` is above 0 when a saved run goes on.

    capture: None where the step is one CUDA graph, else the sentence why it is not.
    """

    run: str
    seed: int
    update: int
    updates: int
    parameters: int
    device: str
    backend: str
    capture: str | None
    metric: str
    chance: dict[str, float]
    paper_value: float | None


@dataclass(frozen=True)
class Updated:
    """Training goes on, told at most about twice a second; `loss` is a mean over recent updates."""

    run: str
    update: int
    updates: int
    epoch: float | None
    loss: float
    learning_rate: float
    updates_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class Evaluated:
    """Scores of a split; `better` when they are the best so far."""

    run: str
    update: int
    split: str
    scores: dict[str, float]
    metric: str
    better: bool


@dataclass(frozen=True)
class Saved:
    """A checkpoint is on disk."""

    run: str
    update: int


@dataclass(frozen=True)
class Warned:
    """Something the user should know."""

    run: str
    text: str


@dataclass(frozen=True)
class Finished:
    """The run is complete and its result written."""

    run: str
    result: Result


Event = Started | Updated | Evaluated | Saved | Warned | Finished
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Listen to nothing."""
    del event


def plain_lines(stream: TextIO | None = None) -> Listener:
    """A listener that writes one line for each event, to standard error unless told otherwise."""
    out = sys.stderr if stream is None else stream

    def listen(event: Event) -> None:
        line = describe(event)
        if line is not None:
            print(line, file=out, flush=True)

    return listen


def describe(event: Event) -> str | None:
    """One line of text for an event; None for those not worth a line."""
    match event:
        case Started():
            verb = f"resumes after update {event.update}" if event.update else "starts"
            return (
                f"{event.run} {verb}: {event.updates} updates, {event.parameters} parameters, "
                f"{event.device}, {event.backend} backend{_captured(event)}, seed {event.seed}"
            )
        case Updated():
            return (
                f"{event.run} {event.update}/{event.updates} loss {event.loss:.5g} "
                f"rate {event.learning_rate:.3g} {event.updates_per_second:.1f} updates/s "
                f"{event.seconds_left:.0f} s left"
            )
        case Evaluated():
            scores = " ".join(f"{name} {value:.5g}" for name, value in event.scores.items())
            mark = " (best)" if event.better else ""
            return f"{event.run} {event.update} {event.split}: {scores}{mark}"
        case Saved():
            return None
        case Warned():
            return f"{event.run} warning: {event.text}"
        case Finished():
            result = event.result
            paper = "" if result.paper_value is None else f", paper {result.paper_value:g}"
            chance = result.chance.get(result.metric)
            floor = "" if chance is None else f", chance {chance:.5g}"
            value = "not a number" if result.value is None else f"{result.value:.5g}"
            return f"{event.run} finished: test {result.metric} {value}{floor}{paper}"


def _captured(event: Started) -> str:
    if event.capture is None:
        return " (one CUDA graph)"
    # Nobody expects a CUDA graph on a CPU.
    return "" if event.device.startswith("cpu") else f" ({event.capture})"
