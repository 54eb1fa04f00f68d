"""Standard output and error as they may be found: closed, full, or unable to write every letter."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator
from typing import TextIO, final


def ready_streams() -> None:
    """Let nothing that is printed fail for being closed, or for a letter the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stderr is sys.__stderr__:
        sys.stderr = _Lasting(
            sys.stderr.buffer,
            encoding=sys.stderr.encoding,
            errors="backslashreplace",
            line_buffering=True,
        )


@final
class _Lasting(io.TextIOWrapper):
    """Standard error that drops what cannot be written, so that no run ends for want of a reader.

    The reader may have left (`2>&1 | head`, a closed terminal), or the disk be full.
    """

    def write(self, text: str) -> int:
        with self._dropping():
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._dropping():
            super().flush()

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            _discard(self)


def discard_output() -> None:
    """Forget what could not be written: it would fail once more when Python ends."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def terminal_width() -> int | None:
    """How wide the terminal is that standard output goes to; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
