"""Carrying out a plan: training what is missing, publishing what ends, rebuilding the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from passnet.cli.errors import INTERRUPTED, failure_status
from passnet.config import CharacterTask, Experiment

if TYPE_CHECKING:
    from passnet.report.plan import Places
    from passnet.training import Event, Listener


def batches(experiments: Sequence[Experiment], device: str | None) -> list[list[Experiment]]:
    """What is trained together: on a CPU one run; on a GPU all small ones, or a language model's
    seeds."""
    if not experiments:
        return []
    from passnet.training.distributed import choose_device

    if choose_device(device).type != "cuda":
        return [[experiment] for experiment in experiments]
    by_preset: dict[str, list[Experiment]] = {}
    small: list[Experiment] = []
    for experiment in experiments:
        large = isinstance(experiment.task, CharacterTask)
        (by_preset.setdefault(experiment.name, []) if large else small).append(experiment)
    return [*([small] if small else []), *by_preset.values()]


def train_and_publish(
    experiments: Sequence[Experiment],
    places: Places,
    *,
    device: str | None,
    data_dir: str | None,
    quiet: bool,
) -> int:
    """Train some runs, publish each as it ends, and say what became of the others.

    Returns the exit status this asks for. A run that diverged has a result and is published too,
    when the others have ended.
    """
    from passnet.cli.display import watching
    from passnet.report import publish_run
    from passnet.training import Diverged, Interrupted, RunError, train_together

    labels = [f"{experiment.name} seed {experiment.seed}" for experiment in experiments]
    with watching(quiet=quiet) as listener_for:
        listeners = [
            _publishing(experiment, places, listener_for(label))
            for experiment, label in zip(experiments, labels, strict=True)
        ]
        found = train_together(
            experiments,
            [places.run(experiment) for experiment in experiments],
            device=device,
            data_dir=data_dir,
            listeners=listeners,
        )
    stopped, failed = [], []
    for experiment, label, outcome in zip(experiments, labels, found, strict=True):
        if isinstance(outcome, Interrupted):
            stopped.append(label)
            continue
        if isinstance(outcome, Diverged):
            _say(f"{label} diverged at update {outcome.update}: it counts as a failed seed")
            publish_run(places.run(experiment), places.result(experiment))
        elif isinstance(outcome, RunError):
            _say(f"{label} failed: {outcome}")
            failed.append(outcome)
    if stopped:
        _say(
            f"stopped by a signal; {', '.join(stopped)} {'is' if len(stopped) == 1 else 'are'} "
            f"saved in {places.runs}: the same command resumes"
        )
        return INTERRUPTED
    return failure_status(failed)


def _publishing(experiment: Experiment, places: Places, listener: Listener) -> Listener:
    """A listener that publishes the run when it is complete."""
    from passnet.report import publish_run
    from passnet.training import Finished

    def listen(event: Event) -> None:
        listener(event)
        if isinstance(event, Finished):
            publish_run(places.run(experiment), places.result(experiment))

    return listen


def rebuild(places: Places, page: Path, benchmarks: Path | None) -> list[Path]:
    """Write the page, and the tables and pictures of a README.md beside the results that has the
    marks for them.

    Without `benchmarks` the page has the timings in benchmarks/results beside the results, if any.
    """
    from passnet.report import has_marks, update_readme, write_page

    folders = [places.results] if places.results.is_dir() else []
    beside = places.results.parent
    timings = beside / "benchmarks" / "results"
    if benchmarks is None and timings.is_dir():
        benchmarks = timings
    write_page(folders, page, benchmarks=benchmarks)
    readme = beside / "README.md"
    if not has_marks(readme):
        return [page]
    update_readme(readme, folders, benchmarks)
    return [page, readme]


def _say(text: str) -> None:
    print(f"passnet: {text}", file=sys.stderr, flush=True)
