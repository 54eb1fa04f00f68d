"""A live display of runs in a terminal, a line for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from passnet.training.events import (
    Evaluated,
    Event,
    Finished,
    Listener,
    Started,
    Updated,
    Warned,
    describe,
)

_NARROW = 80


class _Cut(TextColumn):
    """Text on one line, cut short where other columns need its place."""

    def __init__(self, text_format: str) -> None:
        super().__init__(text_format, table_column=Column())

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


@contextmanager
def live(console: Console) -> Iterator[Callable[[str], Listener]]:
    """What gives each run, by its label, the listener that keeps its line."""
    progress = Progress(*_columns(console.width), console=console, expand=True)
    rows = {}

    def listen(label: str, event: Event) -> None:
        event = replace(event, run=label)
        match event:
            case Started():
                console.print(describe(event), style="dim", highlight=False)
                chance = event.chance.get(event.metric)
                floor = "" if chance is None else f"{chance:.4g} by chance"
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
                # The number first: what follows may be cut off.
                score = f"{event.scores[event.metric]:.4g} {event.split} {event.metric}"
                if event.better or event.split == "test":
                    progress.update(rows[event.run], score=score)
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


def _columns(width: int) -> list[ProgressColumn]:
    """Name and score give way to counter and loss; in a narrow terminal the rest is left out."""
    name = _Cut("[bold]{task.description}")
    counter = MofNCompleteColumn(table_column=Column(no_wrap=True))
    loss = TextColumn("loss {task.fields[loss]}")
    score = _Cut("[green]{task.fields[score]}")
    if width < _NARROW:
        return [name, counter, loss, score]
    speed, left = TextColumn("{task.fields[speed]}"), TextColumn("[cyan]{task.fields[left]}")
    return [name, BarColumn(bar_width=20), counter, loss, score, speed, left]


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
