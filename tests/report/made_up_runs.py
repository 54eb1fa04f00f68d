"""Run folders with made-up numbers, in the format that training writes."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from passnet.config import Experiment, experiment_parameter_counts, identity, to_json
from passnet.experiments import get

CHANCE = {
    "copy": {"cross_entropy_nats": 0.04, "accuracy": 0.98},
    "addition": {"mse_paper_distribution": 1 / 6, "mse_author_distribution": 1 / 6},
    "sequential_mnist": {"accuracy": 0.1135, "cross_entropy_nats": 2.301, "error_percent": 88.65},
    "flat_mnist": {"accuracy": 0.1135, "error_percent": 88.65},
    "character": {"perplexity_macro": 11.5, "perplexity_micro": 11.4},
}


def experiment_of(preset: str, *, seed: int = 0, **changes: Any) -> Experiment:
    """A preset with another seed and, by dataclass fields, other settings."""
    return replace(get(preset), seed=seed, **changes)


def scores_of(kind: str, value: float) -> dict[str, float]:
    """All metrics of a task, made up around the one that the paper prints."""
    if kind == "copy":
        return {"cross_entropy_nats": value, "accuracy": 1 - min(value, 1)}
    if kind == "addition":
        return {"mse_paper_distribution": value, "mse_author_distribution": value * 1.1}
    if kind in ("sequential_mnist", "flat_mnist"):
        return {
            "accuracy": value,
            "error_percent": 100 * (1 - value),
            "cross_entropy_nats": -math.log(max(value, 1e-9)),
        }
    return {
        "perplexity_macro": value,
        "perplexity_micro": value * 0.99,
        "bits_per_character_micro": math.log2(value * 0.99),
    }


def write_run(
    folder: Path,
    experiment: Experiment,
    *,
    value: float | None,
    start: float | None = None,
    finished: bool = True,
    points: int = 12,
    seconds: float = 600.0,
    device: str = "cuda:0 (made-up GPU)",
    diverged: int | None = None,
    stopped: str = "updates: all are taken",
    validation: float | None = None,
) -> Path:
    """A run whose validation score goes from `start` to `value`; None is a score that is no
    number. An unfinished one breaks off in the middle of a line, and one that `diverged` at an
    update has a result without scores. The score on validation in the result is the test's where no
    other is given."""
    kind = experiment.task.kind
    folder.mkdir(parents=True)
    total = experiment.updates or 500 * (experiment.epochs or 1)
    parameters = experiment_parameter_counts(experiment).model or 12_345
    record = {
        "format": "passnet-run",
        "version": 1,
        "identity": identity(experiment),
        "experiment": to_json(experiment),
        "data": {},
        "parameters": parameters,
        "backend": "made-up",
        "processes": 1,
        "versions": {"passnet": "0", "torch": "0.made-up"},
        "commit": "0123456789abcdef",
        "machine": {"device": device},
    }
    (folder / "experiment.json").write_text(json.dumps(record))
    end = 1.0 if value is None else value
    begin = start if start is not None else end
    rng = random.Random(f"{experiment.name} {experiment.seed}")
    lines = []
    taken = points if finished else points // 2
    for k in range(1, taken + 1):
        update = total * k // points
        if diverged is not None and update >= diverged:
            break
        share = k / points
        if end > 0 and begin > 0 and begin / end > 20:
            level = begin ** (1 - share) * end**share
        else:
            level = end + (begin - end) * math.exp(-5 * share)
        level *= 1 + 0.01 * rng.uniform(-1, 1) * (1 - share)
        epoch = update / 500
        lines.append({"kind": "train", "update": update, "epoch": epoch, "loss": level})
        lines.append({"kind": "valid", "update": update, "epoch": epoch, **scores_of(kind, level)})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if not finished:
        (folder / "metrics.jsonl").write_text(text + '{"kind": "valid", "upd')
        return folder
    test = scores_of(kind, end) if value is not None else {}
    if diverged is not None:
        test, total = {}, diverged
        stopped = f"diverged: the gradient of update {diverged} is not finite"
    else:
        text += json.dumps({"kind": "test", "update": total, "epoch": None, **test}) + "\n"
    (folder / "metrics.jsonl").write_text(text)
    paper = experiment.paper
    result = {
        "preset": experiment.name,
        "seed": experiment.seed,
        "metric": experiment.metric,
        "value": test.get(experiment.metric),
        "paper_value": None if paper is None else paper.value,
        "updates": total,
        "parameters": parameters,
        "seconds": seconds,
        "device": device,
        "backend": "made-up",
        "commit": "0123456789abcdef",
        "protocol": experiment.protocol,
        "task": kind,
        "selected_update": total if diverged is None else None,
        "stopped": stopped,
        "recovered": 0,
        "test": test,
        "validation": test if validation is None else scores_of(kind, validation),
        "chance": CHANCE[kind],
    }
    (folder / "result.json").write_text(json.dumps(result))
    return folder
