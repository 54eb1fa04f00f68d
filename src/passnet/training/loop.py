"""Training an experiment in a folder, from wherever it stands to its result."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from passnet.config import Experiment
from passnet.training.assembly import Options, Pause
from passnet.training.distributed import choose_device, current, joined
from passnet.training.events import Listener, silent
from passnet.training.result import Result
from passnet.training.run import RunFolder
from passnet.training.session import Session
from passnet.training.signals import Requests


def train(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    resume: bool = True,
    device: str | torch.device | None = None,
    backend: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    listener: Listener = silent,
    checkpoint_every: int | None = None,
    checkpoint_seconds: Pause = "growing",
    capture: bool = True,
    tensorboard: bool = False,
    minutes: float | None = None,
) -> Result:
    """Train `experiment` in `folder` and return its result, going on from what is saved there.

    A folder whose run is complete gives its result at once. With resume=False a folder that holds a
    run is refused. With `minutes` the last evaluation that fits into them ends the run; with more,
    or without, the same call goes on from there. SIGTERM and Ctrl-C save the run and raise
    Interrupted. A checkpoint is written every `checkpoint_every` updates and `checkpoint_seconds`
    seconds, None for never; "growing" is whenever a run has doubled its time, at least 10 and at
    most 120 seconds apart. Under torchrun all processes call this and train one model together; the
    first writes the files.
    """
    options = Options(
        resume=resume,
        backend=backend,
        data_dir=data_dir,
        checkpoint_every=checkpoint_every,
        checkpoint_seconds=checkpoint_seconds,
        capture=capture,
        tensorboard=tensorboard,
        minutes=minutes,
    )
    place = choose_device(device)
    devices = [place] if place.type == "cuda" else []
    with (
        current(place),
        joined(place) as world,
        Requests() as requests,
        torch.random.fork_rng(devices),
    ):
        session = Session(
            experiment,
            RunFolder(Path(folder)),
            options=options,
            world=world,
            listener=listener,
            requests=requests,
        )
        for _ in session.updates():
            pass
        assert session.result is not None
        return session.result
