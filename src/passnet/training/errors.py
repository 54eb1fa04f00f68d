"""What can go wrong with a run, each as one sentence a user can act on."""

from __future__ import annotations

from typing import final


class RunError(RuntimeError):
    """A run cannot start, go on or be read."""


@final
class Refused(RunError):
    """What was asked for cannot be done here: another device, folder or argument would do."""


def unknown_device(wanted: object) -> str:
    """The sentence for a device that has another name than those passnet computes on."""
    return (
        f"device {str(wanted)!r} was asked for: expected 'cpu', 'cuda', or one of several GPUs "
        "such as 'cuda:1'"
    )


@final
class CheckpointError(RunError):
    """A checkpoint is damaged, foreign, or could not be written."""


@final
class Diverged(RunError):
    """The gradient of `update` is not finite and the experiment's policy is to stop."""

    def __init__(self, update: int) -> None:
        super().__init__(
            f"the gradient of update {update} is not finite, and nan_policy is 'stop': lower "
            "optimiser.learning_rate, clip the gradient, or set nan_policy to a number such as "
            "0.1, and train in another folder"
        )
        self.update = update


@final
class Interrupted(RunError):
    """A signal ended the run after it was saved; the same call continues it."""
