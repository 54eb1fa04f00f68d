"""Watching runs: a live display in a terminal, plain lines elsewhere, nothing when asked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from passnet.training.events import (
    Event,
    Listener,
    Updated,
    Warned,
    describe,
    silent,
)

_SECONDS_BETWEEN_LINES = 15.0


@contextmanager
def watching(*, quiet: bool) -> Iterator[Callable[[str], Listener]]:
    """What gives each run, by its label, the listener that suits where this process writes to."""
    if os.environ.get("RANK", "0") != "0":
        yield lambda label: silent
    elif quiet:
        yield _warnings
    elif sys.stderr.isatty():
        from rich.console import Console

        from passnet.cli.live import live

        with live(Console(stderr=True)) as listener_for:
            yield listener_for
    else:
        yield _lines


def _warnings(label: str) -> Listener:
    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            print(describe(replace(event, run=label)), file=sys.stderr, flush=True)

    return listen


def _lines(label: str) -> Listener:
    last = time.monotonic()

    def listen(event: Event) -> None:
        nonlocal last
        event = replace(event, run=label)
        if isinstance(event, Updated):
            if time.monotonic() - last < _SECONDS_BETWEEN_LINES:
                return
            last = time.monotonic()
        line = describe(event)
        if line is not None:
            print(line, file=sys.stderr, flush=True)

    return listen
