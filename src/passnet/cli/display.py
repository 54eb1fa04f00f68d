"""Watching runs: a live display in a terminal, plain lines elsewhere, nothing when asked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from passnet.training.events import (
    Evaluated,
    Event,
    Finished,
    Listener,
    Started,
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
        with _live() as listener_for:
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


@contextmanager
def _live() -> Iterator[Callable[[str], Listener]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("[green]{task.fields[score]}"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("[cyan]{task.fields[left]}"),
        console=console,
        expand=True,
    )
    rows = {}

    def listen(label: str, event: Event) -> None:
        event = replace(event, run=label)
        match event:
            case Started():
                console.print(describe(event), style="dim", highlight=False)
                chance = event.chance.get(event.metric)
                floor = "" if chance is None else f"chance {chance:.4g}"
                rows[event.run] = progress.add_task(
                    event.run,
                    total=event.updates,
                    completed=event.update,
                    loss="-",
                    score=floor,
                    speed="",
                    left="",
                )
            case Updated():
                progress.update(
                    rows[event.run],
                    completed=event.update,
                    loss=f"{event.loss:.4g}",
                    speed=f"{event.updates_per_second:.1f}/s",
                    left=f"{_clock(event.seconds_left)} left",
                )
            case Evaluated():
                score = f"{event.metric} {event.scores[event.metric]:.4g}"
                if event.better or event.split == "test":
                    progress.update(rows[event.run], score=f"{event.split} {score}")
            case Warned():
                console.print(f"[yellow]{event.run}: {event.text}", highlight=False)
            case Finished():
                if event.run in rows:
                    # A run that stopped early is complete all the same.
                    done = event.result.updates
                    progress.update(rows[event.run], total=done, completed=done, left="done")
            case _:
                pass

    with progress:
        yield lambda label: lambda event: listen(label, event)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
