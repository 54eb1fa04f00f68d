"""Being told to stop before there is anything to save."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from passnet.cli.errors import INTERRUPTED


@contextmanager
def leaving_at_once(words: str = "nothing was running") -> Iterator[None]:
    """SIGINT and SIGTERM end the process with a sentence, until a run takes them over.

    While libraries load, an exception raised by a signal may be swallowed or break an import
    half-way, so the handler leaves by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        name = signal.Signals(number).name
        print(f"passnet: stopped by {name}; {words}", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def load_torch() -> None:
    """Import PyTorch, which takes seconds; a signal meanwhile ends the process."""
    with leaving_at_once():
        import torch  # noqa: F401
