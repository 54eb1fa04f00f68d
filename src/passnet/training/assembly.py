"""An experiment taken apart into what trains it: the one place that reads all its fields."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from passnet.config import CharacterTask, Experiment
from passnet.layers import count_parameters
from passnet.tasks import draws
from passnet.tasks.task import Task
from passnet.training.averaging import Average
from passnet.training.distributed import World
from passnet.training.errors import Refused
from passnet.training.feed import Feed
from passnet.training.graph import CapturedUpdate, why_not_captured
from passnet.training.masks import Masks
from passnet.training.model import build_model
from passnet.training.optimisers import build_optimiser
from passnet.training.problem import build_task
from passnet.training.scoring import scoring_batch_size
from passnet.training.state import Training
from passnet.training.update import Meters, Update, autocast

LINES = 200
"""About how many lines of training the metrics of a short run have; a long one has every 100th."""

Pause = float | Literal["growing"] | None
"""Seconds between checkpoints, None for none by the clock."""


class Choices(TypedDict, total=False):
    """The fields of `Options`, for functions that pass them on."""

    resume: bool
    backend: str
    data_dir: str | os.PathLike[str] | None
    checkpoint_every: int | None
    checkpoint_seconds: Pause
    capture: bool
    tensorboard: bool
    minutes: float | None


@dataclass(frozen=True)
class Options:
    """How a run is carried out; none of it changes what it computes, but for rounding.

    resume: False refuses a folder that holds a run.
    backend: who is to run the scans; "auto" is the fastest that can.
    data_dir: where data files are looked for before anywhere else.
    checkpoint_every, checkpoint_seconds: a checkpoint after so many updates or seconds; "growing"
        is after as many seconds as the run had taken at the last one, within limits.
    capture: False keeps the step out of a CUDA graph.
    tensorboard: whether TensorBoard events are written, too.
    minutes: the last evaluation that fits into them ends the run, which can go on with more.
    """

    resume: bool = True
    backend: str = "auto"
    data_dir: str | os.PathLike[str] | None = None
    checkpoint_every: int | None = None
    checkpoint_seconds: Pause = "growing"
    capture: bool = True
    tensorboard: bool = False
    minutes: float | None = None

    def __post_init__(self) -> None:
        every, pause, minutes = self.checkpoint_every, self.checkpoint_seconds, self.minutes
        if every is not None and (type(every) is not int or every < 1):
            raise ValueError(f"checkpoint_every={every!r}: give a number of updates, or None")
        if pause is not None and pause != "growing" and not _is_time(pause):
            raise ValueError(f"checkpoint_seconds={pause!r}: give a number, 'growing' or None")
        if minutes is not None and not (minutes and _is_time(minutes)):
            raise ValueError(f"minutes={minutes!r}: give a number above 0 such as 9, or None")


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value is not True and 0 <= value < math.inf


@dataclass(frozen=True)
class Assembly:
    """What a run consists of.

    per_epoch: updates in an epoch, None for fresh data.
    masks: the random numbers of the network, None where it draws none.
    carries: whether batches go on from the state of the batch before.
    refused: why the step is not a CUDA graph, or None when it is.
    """

    experiment: Experiment
    task: Task
    feed: Feed
    training: Training
    step: Update | CapturedUpdate
    masks: Masks | None
    world: World
    total: int
    per_epoch: int | None
    evaluate_every: int
    log_every: int
    average_from: int
    scoring_batch: int
    carries: bool
    refused: str | None
    backend: str
    parameters: int
    chance: dict[str, float]
    data: dict[str, Any]
    cautions: list[str] = field(default_factory=list)

    @property
    def epoch(self) -> float | None:
        """How many epochs are done, None for fresh data."""
        return None if self.per_epoch is None else self.training.progress.update / self.per_epoch


def assemble(experiment: Experiment, *, options: Options, world: World) -> Assembly:
    """Build data, network, optimiser and step, everything at its start."""
    task = build_task(experiment.task, data_dir=options.data_dir).to(world.device)
    needed = 2 if experiment.model.batch_norm else 1
    if experiment.batch_size < needed * world.size * experiment.accumulate:
        each = ", where batch norm needs two examples for each" if needed == 2 else ""
        raise Refused(
            f"batch_size={experiment.batch_size} is too small for {world.size} processes with "
            f"accumulate={experiment.accumulate}{each}: use fewer of them"
        )
    per_epoch = task.batch_count("train", batch_size=experiment.batch_size)
    total = experiment.updates or (experiment.epochs or 0) * (per_epoch or 0)
    feed = Feed(experiment, task, world=world)
    first = feed.pieces(0)[0]
    network = build_model(
        experiment.model,
        task.input_size,
        outputs=task.output_size,
        readout=task.readout,
        seed=draws.key("parameters", experiment.seed) >> 1,
        backend=options.backend,
    ).to(world.device)
    with autocast(experiment.precision, world.device):
        backend = network.backend(first.inputs, first.lengths)
    refused = why_not_captured(world) if options.capture else "not captured: switched off"
    optimiser = build_optimiser(
        experiment.optimiser, network.parameters(), capturable=refused is None
    )
    training = Training(
        network,
        optimiser,
        Meters(world.device),
        average=None if experiment.ema is None else Average(experiment.ema.decay),
        carried=[None] * experiment.accumulate,
    )
    update = Update(
        network,
        task,
        optimiser,
        experiment=experiment,
        world=world,
        meters=training.meters,
    )
    return Assembly(
        experiment=experiment,
        task=task,
        feed=feed,
        training=training,
        step=CapturedUpdate(update) if refused is None else update,
        masks=Masks(world.device, seed=experiment.seed, rank=world.rank)
        if network.random
        else None,
        world=world,
        total=total,
        per_epoch=per_epoch,
        evaluate_every=experiment.evaluate_every or per_epoch or total,
        log_every=max(1, min(100, total // LINES)),
        average_from=0 if experiment.ema is None else int(experiment.ema.start * total),
        scoring_batch=scoring_batch_size(experiment, task),
        carries=feed.pieces(1)[0].carries_state,
        refused=refused,
        backend=backend,
        parameters=count_parameters(network),
        chance=task.chance("test"),
        data=task.record(),
        cautions=_cautions(experiment, task, shares=world.size * experiment.accumulate),
    )


def _cautions(experiment: Experiment, task: Task, *, shares: int) -> list[str]:
    cautions, model = [], experiment.model
    expected = experiment.task.vocabulary if isinstance(experiment.task, CharacterTask) else None
    if expected not in (None, task.input_size):
        cautions.append(
            f"the text has {task.input_size} symbols, and the experiment expects {expected}: "
            "parameter counts differ"
        )
    if shares > 1 and model.batch_norm:
        cautions.append(
            "batch normalisation takes its statistics over each piece of a batch, so the curve is "
            "not that of one process without accumulation"
        )
    drops = (model.dropout_input, model.dropout_state, model.dropout_output, model.zoneout)
    if shares > 1 and any((*drops, model.dropout_bottleneck)):
        cautions.append(
            "each piece of a batch draws its own dropout masks, so the curve is that of one "
            "process without accumulation in distribution only"
        )
    return cautions
