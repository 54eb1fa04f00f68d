"""Training an experiment in a folder, from wherever it stands to its result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

import torch

from passnet.config import Experiment
from passnet.training.assembly import Choices, Options
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
    device: str | torch.device | None = None,
    listener: Listener = silent,
    **choices: Unpack[Choices],
) -> Result:
    """Train `experiment` in `folder` and return its result, resuming what is saved there.

    The other arguments are the fields of `Options`: resume, backend, data_dir, checkpoint_every,
    checkpoint_seconds, capture, tensorboard and minutes.

    If the run in the folder is complete, its result is returned at once. With resume=False a folder
    that holds a run is refused. With `minutes` the run ends after the last evaluation that fits
    into them; the same call with more, or without, resumes from there. SIGTERM, Ctrl-C and a
    terminal that closes save the run and raise Interrupted. A checkpoint is written every
    `checkpoint_every` updates and every `checkpoint_seconds` seconds, None for never; "growing"
    means each time the run's duration has doubled, at intervals of 10 to 120 seconds. Under
    torchrun all processes call this and train one model together; the first writes the files.
    """
    options = Options(**choices)
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
