"""Standard output and error as they may be found: closed, full, or unable to write every letter."""

from __future__ import annotations

import io
import os
import shutil
import sys


def ready_streams() -> None:
    """Let nothing that is printed fail for being closed, or for a letter the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Forget what could not be written: it would fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def terminal_width() -> int | None:
    """How wide the terminal is that standard output goes to; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
