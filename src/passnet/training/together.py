"""Several runs on one device: side by side on a GPU, one after another on a CPU."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import torch

from passnet.config import Experiment
from passnet.ops import BackendRefused
from passnet.tasks.data import DataError
from passnet.training.assembly import Choices, Options
from passnet.training.distributed import World, choose_device, current
from passnet.training.errors import Refused, RunError
from passnet.training.events import Listener, silent
from passnet.training.result import Result
from passnet.training.run import RunFolder
from passnet.training.session import Session
from passnet.training.signals import Requests

AT_ONCE = 6
"""Runs side by side: a scan of 20 sequences takes as many of some 130 multiprocessors."""
AHEAD = 4
"""Updates that may wait on a stream: enough to keep it busy, few enough to be waited for."""
PAUSE = 5e-5
"""Seconds between looks at full streams."""


def train_together(
    experiments: Sequence[Experiment],
    folders: Sequence[str | os.PathLike[str]],
    *,
    device: str | torch.device | None = None,
    listener: Listener = silent,
    listeners: Sequence[Listener] | None = None,
    at_once: int = AT_ONCE,
    **choices: Unpack[Choices],
) -> list[Result | RunError]:
    """Train each experiment in its folder; the result of a run that fails is its error.

    On a GPU up to `at_once` runs take turns update by update, each on its own stream, so that small
    models share the chip, and the next begins when one ends; each computes what it would compute
    alone. SIGTERM, Ctrl-C and a terminal that closes save all of them. `listeners` gives each run
    its own listener; otherwise all use `listener`. `minutes` applies to each run, and all other
    options are as in `train`. Any error but a RunError is raised when the others have ended.
    """
    if at_once < 1:
        raise ValueError(f"at_once={at_once}: give the number of runs side by side, 1 or more")
    listeners = [listener] * len(experiments) if listeners is None else list(listeners)
    if len(experiments) != len(folders):
        raise ValueError(f"got {len(experiments)} experiments and {len(folders)} folders")
    if len(listeners) != len(experiments):
        raise ValueError(f"got {len(experiments)} experiments and {len(listeners)} listeners")
    if len({Path(folder).resolve() for folder in folders}) != len(folders):
        raise ValueError("two runs have the same folder: give each its own")
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise Refused("several runs side by side take one process: start them without torchrun")
    place = choose_device(device)
    world = World(place)
    side_by_side = place.type == "cuda" and len(experiments) > 1
    options = Options(**choices)
    devices = [place] if place.type == "cuda" else []
    with current(place), Requests() as requests, torch.random.fork_rng(devices):
        sessions = [
            Session(
                experiment,
                RunFolder(Path(folder)),
                options=options,
                world=world,
                listener=own,
                requests=requests,
            )
            for experiment, folder, own in zip(experiments, folders, listeners, strict=True)
        ]
        turns = [_Turns(session, own_stream=side_by_side) for session in sessions]
        if side_by_side:
            take_turns(turns, at_once=at_once)
        else:
            for turn in turns:
                while turn.next():
                    pass
    for turn in turns:
        if turn.failure is not None:
            raise turn.failure
    return [turn.outcome() for turn in turns]


def take_turns(turns: Sequence[_Turns], *, at_once: int = AT_ONCE) -> None:
    """Advance all to their ends, each as fast as its own stream: a slow one holds up no other."""
    going, waiting = [], deque(turns)
    while going or waiting:
        while waiting and len(going) < at_once:
            going.append(waiting.popleft())
        ready = [turn for turn in going if turn.ready()]
        for turn in ready:
            turn.next()
        if not ready:
            # Every stream has its fill. Waiting for one of them might be waiting for the slowest.
            time.sleep(PAUSE)
        going = [turn for turn in going if turn.updates is not None]


class _Turns:
    """One session, advanced an update at a time."""

    def __init__(self, session: Session, *, own_stream: bool) -> None:
        self.session = session
        self.error: RunError | None = None
        self.failure: Exception | None = None
        self.updates: Iterator[None] | None = session.updates()
        self.stream = torch.cuda.Stream(session.world.device) if own_stream else None
        self._queued: deque[torch.cuda.Event] = deque()

    def ready(self) -> bool:
        """Whether another update may be queued without waiting for the device."""
        while self._queued and self._queued[0].query():
            self._queued.popleft()
        return len(self._queued) < AHEAD

    def next(self) -> bool:
        """Take one update; False when there is nothing left to do."""
        if self.updates is None:
            return False
        own = contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)
        try:
            with own:
                next(self.updates)
                if self.stream is not None:
                    event = torch.cuda.Event()
                    event.record(self.stream)
                    self._queued.append(event)
        except StopIteration:
            self.updates = None
        except RunError as error:
            self.error, self.updates = error, None
        except (DataError, BackendRefused) as error:
            self.error, self.updates = Refused(str(error)), None
        except Exception as failure:
            self.failure, self.updates = failure, None
        return self.updates is not None

    def outcome(self) -> Result | RunError:
        if self.error is not None:
            return self.error
        assert self.session.result is not None
        return self.session.result
