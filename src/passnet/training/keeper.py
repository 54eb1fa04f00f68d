"""When and what a run saves, how it comes back from it, and its result."""

from __future__ import annotations

import time
from typing import Any, final

import torch

from passnet.config import identity
from passnet.training.assembly import Assembly, Options
from passnet.training.checkpoint import Checkpoint, load_newest, save_checkpoint
from passnet.training.events import Saved
from passnet.training.machine import commit, device_name, machine, thread_count, versions
from passnet.training.metrics import MetricsFile
from passnet.training.plain_json import plain
from passnet.training.recorder import Recorder
from passnet.training.result import Result
from passnet.training.run import RunFolder
from passnet.training.state import packed, restored_
from passnet.training.tensorboard import board_writer, open_board

AGREED_EVERY = 16
SHORTEST, LONGEST = 10.0, 120.0
"""Seconds between checkpoints whose pauses grow: a kill then costs half of a short run at most."""


@final
class Keeper:
    """The checkpoints and the result of a run in its folder."""

    def __init__(
        self, folder: RunFolder, *, parts: Assembly, options: Options, recorder: Recorder
    ) -> None:
        self.folder = folder
        self.parts = parts
        self.options = options
        self.recorder = recorder
        self.saved_update = 0

    def restore(self) -> None:
        """Begin the folder, or bring everything to where its newest checkpoint stands."""
        parts, world, saved = self.parts, self.parts.world, None
        if world.first:
            if self.options.tensorboard:
                # What refuses does so before a folder holds a run that never began.
                board_writer()
            if self.folder.exists():
                self.folder.check_experiment(parts.experiment)
                self.folder.check_data(parts.data)
                self.folder.lengthen(parts.experiment)
            else:
                self.folder.begin(parts.experiment, self._facts())
            saved = load_newest(
                self.folder.checkpoints,
                identities={identity(parts.experiment), *self.folder.identities()},
                warn=self.recorder.warn,
                set_aside=True,
            )
        saved = Checkpoint.shared(saved, world.send)
        if saved is not None:
            progress, lanes = saved.record["progress"], parts.experiment.batch_size
            restored_(parts.training, saved.tensors, progress, world=world, lanes=lanes)
            self._compare_threads(saved.record["threads"])
        progress = parts.training.progress
        if world.first:
            record = {} if saved is None else saved.record
            self.recorder.metrics = MetricsFile(
                self.folder.metrics_file,
                position=record.get("metrics_bytes", 0),
                sha256=record.get("metrics_sha256"),
            )
            if self.options.tensorboard:
                board = self.folder.path / "tensorboard"
                self.recorder.board = open_board(board, update=progress.update)
        self.saved_update = progress.update
        self._began = self._saved_at = time.monotonic()
        self._seconds_before = progress.seconds

    @property
    def seconds(self) -> float:
        """How long the run has taken, all its parts together."""
        return self._seconds_before + time.monotonic() - self._began

    @property
    def agreeing(self) -> bool:
        """Whether processes compare notes after this update; alone, one always does."""
        update = self.parts.training.progress.update
        return self.parts.world.size == 1 or update % AGREED_EVERY == 0

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        every, seconds = self.options.checkpoint_every, self._pause()
        due = every is not None and self.parts.training.progress.update % every == 0
        if seconds is not None and self.agreeing:
            due |= self.parts.world.any(time.monotonic() - self._saved_at >= seconds)
        return due

    def _pause(self) -> float | None:
        """Seconds from the last checkpoint to the next, None for none by the clock."""
        seconds = self.options.checkpoint_seconds
        if seconds != "growing":
            return seconds
        return min(max(self.parts.training.progress.seconds, SHORTEST), LONGEST)

    def save(self) -> None:
        """Write a checkpoint; every process calls this."""
        parts, training = self.parts, self.parts.training
        training.progress.seconds = self.seconds
        tensors = packed(training, world=parts.world, lanes=parts.experiment.batch_size)
        if parts.world.first:
            record = {
                "progress": training.progress.record(),
                **self.recorder.settle(),
                "threads": torch.get_num_threads(),
                "processes": parts.world.size,
                "versions": versions(),
            }
            save_checkpoint(
                self.folder.checkpoints,
                Checkpoint(training.progress.update, identity(parts.experiment), record, tensors),
            )
        self.saved_update, self._saved_at = training.progress.update, time.monotonic()
        self.recorder.tell(Saved(self.recorder.run, self.saved_update))

    def complete(
        self,
        *,
        updates: int,
        stopped: str,
        selected: int | None = None,
        test: dict[str, float] | None = None,
        validation: dict[str, float | None] | None = None,
        weights_sha256: str | None = None,
    ) -> Result:
        """The result, which the first process writes; without test scores its value is None."""
        experiment, metric = self.parts.experiment, self.recorder.metric
        paper = experiment.paper
        result = Result(
            preset=experiment.name,
            seed=experiment.seed,
            metric=metric,
            value=None if test is None else plain(test[metric]),
            paper_value=None if paper is None else paper.value,
            paper_relation=None if paper is None else paper.relation,
            updates=updates,
            parameters=self.parts.parameters,
            seconds=self.seconds,
            device=device_name(self.parts.world.device),
            backend=self.parts.backend,
            commit=commit(),
            protocol=experiment.protocol,
            task=experiment.task.kind,
            selected_update=selected,
            stopped=stopped,
            recovered=self.parts.training.progress.recovered,
            test=plain(test or {}),
            validation=validation or {},
            chance=plain(self.parts.chance),
            weights_sha256=weights_sha256,
        )
        if self.parts.world.first:
            self.recorder.settle()
            self.folder.finish(result)
        return result

    def _facts(self) -> dict[str, Any]:
        return {
            "data": self.parts.data,
            "parameters": self.parts.parameters,
            "backend": self.parts.backend,
            "processes": self.parts.world.size,
            "versions": versions(),
            "commit": commit(),
            "machine": machine(self.parts.world.device),
        }

    def _compare_threads(self, before: int) -> None:
        now = torch.get_num_threads()
        if self.parts.world.device.type == "cpu" and now != before:
            self.recorder.warn(
                f"the run resumes on {thread_count()} and was saved on {before}: sums may round "
                "differently, so it will not match the uninterrupted run bit for bit"
            )
