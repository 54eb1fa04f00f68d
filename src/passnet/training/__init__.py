"""Training: an experiment becomes a folder with its result, resumable bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passnet.training.errors import CheckpointError, Diverged, Interrupted, Refused, RunError
    from passnet.training.events import (
        Evaluated,
        Event,
        Finished,
        Listener,
        Saved,
        Started,
        Updated,
        Warned,
        describe,
        plain_lines,
        silent,
    )
    from passnet.training.loop import train
    from passnet.training.model import Network, build_model
    from passnet.training.optimisers import RMSProp
    from passnet.training.problem import build_task
    from passnet.training.program import Program, program_of
    from passnet.training.reading import Run, evaluate, load_run
    from passnet.training.result import Result
    from passnet.training.sampling import sample_text, stream_text
    from passnet.training.together import train_together

__all__ = [
    "CheckpointError",
    "Diverged",
    "Evaluated",
    "Event",
    "Finished",
    "Interrupted",
    "Listener",
    "Network",
    "Program",
    "RMSProp",
    "Refused",
    "Result",
    "Run",
    "RunError",
    "Saved",
    "Started",
    "Updated",
    "Warned",
    "build_model",
    "build_task",
    "describe",
    "evaluate",
    "load_run",
    "plain_lines",
    "program_of",
    "sample_text",
    "silent",
    "stream_text",
    "train",
    "train_together",
]

# Names are found on first use, so that events and results can be read without PyTorch.
_MODULES = {
    "errors": (
        "CheckpointError",
        "Diverged",
        "Interrupted",
        "Refused",
        "RunError",
    ),
    "events": (
        "Evaluated",
        "Event",
        "Finished",
        "Listener",
        "Saved",
        "Started",
        "Updated",
        "Warned",
        "describe",
        "plain_lines",
        "silent",
    ),
    "loop": ("train",),
    "model": (
        "Network",
        "build_model",
    ),
    "optimisers": ("RMSProp",),
    "problem": ("build_task",),
    "program": ("Program", "program_of"),
    "reading": (
        "Run",
        "evaluate",
        "load_run",
    ),
    "result": ("Result",),
    "sampling": (
        "sample_text",
        "stream_text",
    ),
    "together": ("train_together",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _MODULE_OF:
        return getattr(import_module(f"passnet.training.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'passnet.training' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
