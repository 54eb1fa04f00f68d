"""One run while it is trained: updates, evaluations and the result."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator
from typing import final

from passnet.config import Experiment
from passnet.config.run_folder import ALL_TAKEN, DIVERGED
from passnet.tasks.task import Split
from passnet.training.assembly import Assembly, Options, assemble
from passnet.training.distributed import World
from passnet.training.errors import Diverged, Interrupted, Refused, RunError
from passnet.training.events import Finished, Listener, Started
from passnet.training.guard import guarded
from passnet.training.keeper import Keeper
from passnet.training.machine import device_name
from passnet.training.optimisers import set_rate
from passnet.training.problem import quick_record
from passnet.training.progress import judge, keeps_best
from passnet.training.recorder import Recorder
from passnet.training.result import Result
from passnet.training.run import RunFolder
from passnet.training.schedules import rate_factor
from passnet.training.scoring import put_, scoring, tensors_of, using
from passnet.training.signals import Requests
from passnet.training.time_limit import TimeLimit


class _Asked(Exception):
    """A signal came in the middle of an evaluation."""


@final
class Session:
    """A run in a folder; `updates` carries it to its end, and then `result` is there."""

    parts: Assembly
    keeper: Keeper

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        *,
        options: Options,
        world: World,
        listener: Listener,
        requests: Requests,
    ) -> None:
        if not isinstance(experiment, Experiment):
            raise TypeError(
                f"the experiment is {experiment!r}: give an Experiment, such as "
                "passnet.experiments.get('quick/copy')"
            )
        self.experiment = experiment
        self.folder = folder
        self.options = options
        self.world = world
        self.requests = requests
        self.limit = TimeLimit(options.minutes)
        self.result: Result | None = None
        self.recorder = Recorder(
            experiment.name, metric=experiment.metric, listener=listener if world.first else None
        )

    def updates(self) -> Iterator[None]:
        """The whole run, pausing after each update and before each batch of an evaluation."""
        with guarded(self.folder.path) if self.world.first else contextlib.nullcontext():
            result = self._agreed_result()
            if result is not None and result.diverged:
                raise Diverged(result.updates)
            if result is None:
                if self.requests.signal is not None and self.world.size == 1:
                    raise Interrupted(
                        f"stopped by {self.requests.signal} before it began in "
                        f"{self.folder.path}: run the same command to start it"
                    )
                try:
                    self._begin()
                    yield from self._loop()
                    result = yield from self._finish()
                except Diverged as error:
                    self._give_up(error)
                    raise
                finally:
                    self.recorder.close()
        self.result = result
        self.recorder.tell(Finished(self.experiment.name, result))

    def _loop(self) -> Iterator[None]:
        while True:
            if self._evaluation_due():
                with self.recorder.paused():
                    yield from self._evaluate()
            if self.parts.training.progress.stopped is not None:
                break
            self._update()
            self._log()
            self._leave_if_asked()
            if self.keeper.due():
                self._save()
            yield
        self._save()

    def _agreed_result(self) -> Result | None:
        """The result that the first process finds, in all; None for a run that begins or goes on.

        A folder that holds something else than this run is refused.
        """
        found = None
        if self.world.first and self.folder.exists():
            if not self.options.resume:
                raise RunError(
                    f"{self.folder.path} already holds a run: resume it, or train in another folder"
                )
            self.folder.check_experiment(self.experiment)
            found = self.folder.result()
            if found is not None:
                self.folder.check_data(quick_record(self.experiment.task))
                if self._reopens(found):
                    found = None
        record = json.loads(self.world.send(json.dumps(found and found.record()).encode()))
        return None if record is None else Result.of(record)

    def _reopens(self, result: Result) -> bool:
        """Whether a complete run is continued.

        A copy without checkpoints keeps its result, and is refused where more updates are wanted.
        """
        if not self._has_more(result.stopped, result.updates):
            return False
        if not self.folder.can_go_on() and result.stopped == ALL_TAKEN:
            raise Refused(
                f"{self.folder.path} holds a copy without checkpoints, which cannot be continued "
                f"to {self.experiment.updates} updates: train in another folder"
            )
        return self.folder.can_go_on()

    def _has_more(self, stopped: str | None, update: int) -> bool:
        """Whether a run that stopped so, after that update, now has more minutes or updates."""
        if stopped == ALL_TAKEN:
            cap = self.experiment.updates
            return cap is not None and update < cap
        return self.limit.allows_more(stopped)

    def _begin(self) -> None:
        self.parts = assemble(self.experiment, options=self.options, world=self.world)
        self.keeper = Keeper(
            self.folder, parts=self.parts, options=self.options, recorder=self.recorder
        )
        self.keeper.restore()
        progress = self.parts.training.progress
        if self._has_more(progress.stopped, progress.update):
            progress.stopped = None
        if self.world.first:
            self.folder.reopen()
        self.limit.begin(progress.seconds)
        for caution in self.parts.cautions:
            self.recorder.warn(caution)
        update, paper = progress.update, self.experiment.paper
        self.recorder.tell(
            Started(
                run=self.experiment.name,
                seed=self.experiment.seed,
                update=update,
                updates=self.parts.total,
                parameters=self.parts.parameters,
                device=device_name(self.world.device),
                backend=self.parts.backend,
                capture=self.parts.refused,
                metric=self.experiment.metric,
                chance=self.parts.chance,
                paper_value=None if paper is None else paper.value,
            )
        )
        self.recorder.start_clock(update)

    def _update(self) -> None:
        parts, training = self.parts, self.parts.training
        progress = training.progress
        pieces = parts.feed.pieces(progress.update)
        set_rate(training.optimiser, self._rate(progress.update))
        carried = [
            state if batch.carries_state else None
            for batch, state in zip(pieces, training.carried, strict=True)
        ]
        with parts.masks.of(progress.update) if parts.masks else contextlib.nullcontext():
            states = parts.step(pieces, carried)
        training.carried = states if parts.carries else [None] * len(pieces)
        progress.update += 1
        if training.average is not None and progress.update > parts.average_from:
            training.average.add(dict(training.network.named_parameters()))
            progress.averaged = training.average.count
        if self.world.device.type == "cpu":
            self._check_gradients()

    def _rate(self, update: int) -> float:
        factor = rate_factor(
            self.experiment.schedule,
            update,
            total=self.parts.total,
            halvings=self.parts.training.progress.halvings,
        )
        return self.experiment.optimiser.learning_rate * factor

    def _check_gradients(self) -> None:
        """Stop at a gradient that is not finite; reading the meter waits for the device."""
        if self.experiment.nan_policy != "stop":
            return
        first = int(self.parts.training.meters.tensors["first_broken"].item())
        if first:
            raise Diverged(first)

    def _log(self) -> None:
        training, progress = self.parts.training, self.parts.training.progress
        due, tell = progress.update % self.parts.log_every == 0, self.recorder.due()
        if not due and not tell:
            return
        self._check_gradients()
        meters, count = training.meters.tensors, progress.update - progress.logged
        rate = self._rate(progress.update - 1)
        if not due:
            loss = meters["loss"].item() / count
        else:
            loss = self.world.sum(meters["loss"]).item() / count / self.world.size
            norm, recovered = meters["norm"].item() / count, int(meters["broken"].item())
            line = {"loss": loss, "gradient_norm": norm, "learning_rate": rate}
            self.recorder.write_training(self.parts, line, recovered=recovered)
            training.meters.reset()
            progress.logged = progress.update
            progress.recovered += recovered
        if tell:
            self.recorder.tell_update(self.parts, loss=loss, rate=rate)

    def _evaluation_due(self) -> bool:
        progress = self.parts.training.progress
        if progress.update == 0 or progress.evaluated == progress.update:
            return False
        last = progress.update == self.parts.total
        return last or progress.update % self.parts.evaluate_every == 0

    def _evaluate(self) -> Iterator[None]:
        self._check_gradients()
        training, progress = self.parts.training, self.parts.training.progress
        averaged = {} if training.average is None else training.average.tensors
        try:
            with using(training.network, averaged):
                scores = yield from self._score("valid")
                verdict = judge(progress, scores, experiment=self.experiment)
                if verdict.better:
                    own = tensors_of(training.network)
                    training.best = {name: t.detach().clone() for name, t in own.items()}
        except _Asked:
            self._save()
            raise self._interrupted() from None
        if verdict.back:
            put_(training.network, training.best)
            if training.average is not None:
                training.average.restart(dict(training.network.named_parameters()))
                progress.averaged = training.average.count
        if progress.stopped is None and progress.update == self.parts.total:
            progress.stopped = ALL_TAKEN
        if self.options.minutes is not None:
            no_room = self.world.any(self.limit.leaves_no_room(self.keeper.seconds))
            progress.stopped = progress.stopped or (self.limit.words if no_room else None)
        self.recorder.write_scores(
            self.parts,
            scores,
            split="valid" if self.parts.task.holds_out else "seen",
            update=progress.update,
            better=verdict.better and self.parts.task.holds_out,
        )

    def _score(self, split: Split) -> Generator[None, None, dict[str, float]]:
        going = scoring(
            self.parts.training.network,
            self.parts.task,
            split=split,
            batch_size=self.parts.scoring_batch,
            world=self.world,
            precision=self.experiment.precision,
        )
        while True:
            # Processes agree on leaving between updates only: within a pass one would wait for
            # others.
            if self.requests.signal is not None and self.world.size == 1:
                going.close()
                raise _Asked
            try:
                next(going)
            except StopIteration as end:
                return end.value
            yield

    def _save(self) -> None:
        self._check_gradients()
        self.keeper.save()

    def _leave_if_asked(self) -> None:
        if self.keeper.agreeing and self.world.any(self.requests.signal is not None):
            self._save()
            raise self._interrupted()

    def _interrupted(self) -> Interrupted:
        return Interrupted(
            f"stopped by {self.requests.signal or 'a signal to another process'} after update "
            f"{self.keeper.saved_update}; everything is saved in {self.folder.path}: run the same "
            "command to resume"
        )

    def _finish(self) -> Generator[None, None, Result]:
        training, experiment = self.parts.training, self.experiment
        progress = training.progress
        best = keeps_best(experiment.selection, progress)
        averaged = {} if training.average is None else training.average.tensors
        put_(training.network, training.best if best else averaged)
        selected = (progress.best_update if best else None) or progress.update
        try:
            test = yield from self._score("test")
        except _Asked:
            raise self._interrupted() from None
        self.recorder.write_scores(self.parts, test, split="test", update=selected)
        weights = tensors_of(training.network)
        validation = progress.best_scores if best else progress.last_scores
        return self.keeper.complete(
            updates=progress.update,
            stopped=progress.stopped or "",
            selected=selected,
            test=test,
            validation=validation if self.parts.task.holds_out else None,
            weights_sha256=self.folder.write_weights(weights) if self.world.first else None,
        )

    def _give_up(self, error: Diverged) -> None:
        """A run that diverged is complete too: repeating it would end at the same update."""
        self.keeper.complete(
            updates=error.update,
            stopped=f"{DIVERGED}: the gradient of update {error.update} is not finite",
        )
