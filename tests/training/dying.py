"""Processes that end in the middle of their work, as by a power cut."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

from passnet.config import whole_files

# A forked child has PyTorch loaded already, so that dozens of them can be killed in seconds.
FORKS = multiprocessing.get_context("fork")


def die_at_file_operation(number: int) -> None:
    """Have this process kill itself at its `number`-th file operation from now on."""
    count = iter(range(1, 10**9))

    def dying(real):
        def call(*arguments, **keywords):
            if next(count) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **keywords)

        return call

    whole_files.os.replace = dying(os.replace)
    whole_files.os.fsync = dying(os.fsync)
    Path.unlink = dying(Path.unlink)
