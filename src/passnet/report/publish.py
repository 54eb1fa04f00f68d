"""Putting a finished run among the results: what it was, its numbers, and nothing heavy."""

from __future__ import annotations

import json
from pathlib import Path

from passnet.config import identity
from passnet.config.run_folder import EXPERIMENT_FILE, METRICS_FILE, RESULT_FILE
from passnet.report.errors import ReportError
from passnet.report.groups import out_of_time
from passnet.report.read import Run, read_run
from passnet.report.write import write_whole

TRAINING_LINES = 1000


def publish_run(folder: Path, destination: Path) -> Run:
    """Copy the finished run in `folder`, without checkpoints and weights, to `destination`.

    A result there is replaced where the same run had ended for want of time, and nowhere else.
    `result.json` is written last, so that a copy that was cut short is not taken for a result.
    """
    run = read_run(folder)
    if run.outcome is None:
        raise ReportError(
            f"{folder} is not finished, so it has no result to publish: train it first"
        )
    if (destination / RESULT_FILE).exists() and not _went_on(read_run(destination), run):
        raise ReportError(f"{destination} holds a result already: remove it, or publish elsewhere")
    try:
        destination.mkdir(parents=True, exist_ok=True)
        (destination / RESULT_FILE).unlink(missing_ok=True)
        metrics = (folder / METRICS_FILE).read_text(encoding="utf-8")
        content = {
            EXPERIMENT_FILE: (folder / EXPERIMENT_FILE).read_text(encoding="utf-8"),
            METRICS_FILE: thinned_metrics(metrics),
            RESULT_FILE: (folder / RESULT_FILE).read_text(encoding="utf-8"),
        }
    except OSError as error:
        raise ReportError(
            f"{folder} could not be copied to {destination} ({error.strerror or error})"
        ) from error
    for name, text in content.items():
        write_whole(destination / name, text)
    return read_run(destination)


def _went_on(before: Run, run: Run) -> bool:
    """Whether a run is one that had a result for want of time, and more of it."""
    return (
        out_of_time(before)
        and identity(before.experiment) == identity(run.experiment)
        and before.outcome is not None
        and run.outcome is not None
        and before.outcome.updates <= run.outcome.updates
    )


def thinned_metrics(text: str, most: int = TRAINING_LINES) -> str:
    """The lines of a `metrics.jsonl`: of those about training at most `most`, evenly spaced and
    the last among them; of evaluations all."""
    lines = text.splitlines(keepends=True)
    training = [number for number, line in enumerate(lines) if json.loads(line)["kind"] == "train"]
    if len(training) <= most:
        return text
    kept = {training[(k + 1) * len(training) // most - 1] for k in range(most)}
    dropped = set(training) - kept
    return "".join(line for number, line in enumerate(lines) if number not in dropped)
