"""Finding and reading the runs below some folders; an unfinished run is a run too."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passnet.config import ConfigurationError, Experiment, from_json
from passnet.config.run_folder import EXPERIMENT_FILE, METRICS_FILE, RESULT_FILE, fault_in
from passnet.report.errors import NothingThere, ReportError

Folder = str | os.PathLike[str]
Scores = dict[str, float | None]


@dataclass(frozen=True)
class Point:
    """Scores after `update` updates; None where a score was not a finite number."""

    update: int
    epoch: float | None
    scores: Scores


@dataclass(frozen=True)
class Outcome:
    """The content of `result.json`; `value` is None where the run diverged, which `stopped` says,
    or the test score was not a number."""

    metric: str
    value: float | None
    updates: int
    parameters: int
    seconds: float
    device: str
    backend: str
    commit: str | None
    selected_update: int | None
    stopped: str
    recovered: int
    test: Scores
    validation: Scores
    chance: Scores


@dataclass(frozen=True)
class Run:
    """One run: what it is, its validation scores, and its outcome once it is finished.

    place: where it was found, from the folder that was asked for.
    facts: what else `experiment.json` says, such as versions and machine.
    """

    path: Path
    place: str
    experiment: Experiment
    facts: dict[str, Any]
    evaluations: tuple[Point, ...]
    reached: int
    outcome: Outcome | None


def find_runs(folders: Iterable[Folder], *, warn: Callable[[str], None] | None = None) -> list[Run]:
    """Every run in or below the folders, each once, in the order of their paths.

    A damaged one is an error or, with `warn`, left out and told to it.
    """
    found: dict[Path, Run] = {}
    for folder in folders:
        root = Path(folder)
        if not root.is_dir():
            raise NothingThere(f"there is no folder {root}: give folders of runs")
        for path in _run_folders(root):
            key = path.resolve()
            if key not in found:
                below = path.relative_to(root)
                try:
                    found[key] = read_run(path, place=str(below if below.parts else path.name))
                except ReportError as error:
                    if warn is None:
                        raise
                    warn(f"{error}; the run is left out")
    return list(found.values())


def read_run(path: Path, *, place: str | None = None) -> Run:
    """The run in a folder that holds an `experiment.json`."""
    file = path / EXPERIMENT_FILE
    record = _read_json(file)
    fault = fault_in(record)
    if fault is not None:
        raise ReportError(f"{file} {fault}")
    try:
        experiment = from_json(record.pop("experiment", None))
    except ConfigurationError as error:
        raise ReportError(f"{file} cannot be understood: {error}") from error
    evaluations, reached = _read_metrics(path / METRICS_FILE)
    outcome = _read_outcome(path / RESULT_FILE, experiment)
    return Run(
        path=path,
        place=place or path.name,
        experiment=experiment,
        facts=record,
        evaluations=evaluations,
        reached=reached if outcome is None else outcome.updates,
        outcome=outcome,
    )


def _run_folders(root: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(root):
        below.sort()
        if EXPERIMENT_FILE in files:
            below.clear()
            yield Path(folder)


def read_text(path: Path) -> str:
    """What a file of words says."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path} cannot be read ({error})") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise ReportError(f"{path} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise ReportError(f"{path} is damaged: it is not JSON ({error})") from error
    if not isinstance(record, dict):
        raise ReportError(f"{path} is damaged: expected a JSON object")
    return record


def _read_metrics(path: Path) -> tuple[tuple[Point, ...], int]:
    """The validation points in order, and the last update any line speaks of."""
    if not path.exists():
        return (), 0
    try:
        # What follows the last line end is a line still being written.
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise ReportError(f"{path} cannot be read ({error.strerror or error})") from error
    points, reached = [], 0
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            record = json.loads(line)
            kind, update = record.pop("kind"), int(record.pop("update"))
            epoch = record.pop("epoch", None)
            scores = {str(key): _score(value) for key, value in record.items()}
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise ReportError(
                f"{path} is damaged at line {number}: expected a JSON object with kind, update "
                "and numbers"
            ) from error
        if kind == "valid":
            points.append(Point(update, epoch, scores))
        reached = max(reached, update)
    return tuple(points), reached


def _read_outcome(path: Path, experiment: Experiment) -> Outcome | None:
    if not path.exists():
        return None
    record = _read_json(path)
    try:
        selected = record.get("selected_update")
        found = Outcome(
            metric=str(record["metric"]),
            value=_score(record["value"]),
            updates=int(record["updates"]),
            parameters=int(record["parameters"]),
            seconds=float(record["seconds"]),
            # What older results say in the plural.
            device=str(record["device"]).replace("(1 threads)", "(1 thread)"),
            backend=str(record["backend"]),
            commit=record.get("commit"),
            selected_update=None if selected is None else int(selected),
            stopped=str(record.get("stopped") or ""),
            recovered=int(record.get("recovered") or 0),
            test=_scores(record, "test"),
            validation=_scores(record, "validation"),
            chance=_scores(record, "chance"),
        )
        run = record["preset"], record["seed"]
    except KeyError as error:
        raise ReportError(f"{path} is damaged: it has no {error.args[0]!r}") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ReportError(f"{path} is damaged: {error}") from error
    if run != (experiment.name, experiment.seed):
        raise ReportError(
            f"{path} is the result of {run[0]} seed {run[1]}, but {EXPERIMENT_FILE} beside it is "
            f"of {experiment.name} seed {experiment.seed}: one of them is not of this run"
        )
    return found


def _scores(record: dict[str, Any], key: str) -> Scores:
    return {str(name): _score(value) for name, value in (record.get(key) or {}).items()}


def _score(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, got {value!r}")
    return float(value) if math.isfinite(value) else None
