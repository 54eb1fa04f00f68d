"""What can go wrong with a run, each as one sentence a user can act on."""

from __future__ import annotations

from typing import final


class RunError(RuntimeError):
    """A run cannot start, go on or be read."""


@final
class CheckpointError(RunError):
    """A checkpoint is damaged, foreign, or could not be written."""


@final
class Diverged(RunError):
    """The gradient is no longer finite and the experiment's policy is to stop."""


@final
class Interrupted(RunError):
    """A signal ended the run after it was saved; the same call continues it."""
