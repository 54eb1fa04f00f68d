"""Experiments of a second or less, and what of a finished run must be the same bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from passnet.config import (
    Adam,
    AdditionTask,
    Averaging,
    CharacterTask,
    ClipComponents,
    ClipNorm,
    CopyTask,
    Cosine,
    Experiment,
    FlatMnistTask,
    HalveOnPlateau,
    LowRank,
    LowRankPlusDiagonal,
    Model,
    RmsProp,
    Selection,
    SequentialMnistTask,
)

COPY = Experiment(
    name="tiny/copy",
    task=CopyTask(lag=5, length=3, train_size=64, eval_size=20),
    model=Model(
        size=12,
        matrix=LowRankPlusDiagonal(3),
        reset="before",
        carry_bias=1.0,
        learn_initial_state=True,
        weight_norm=True,
        max_row_norm=1.0,
        dropout_state=0.1,
    ),
    optimiser=RmsProp(1e-2, epsilon=1e-8),
    clipping=ClipNorm(1.0),
    nan_policy=0.1,
    ema=Averaging(0.9, start=0.3),
    batch_size=8,
    updates=30,
    evaluate_every=7,
    selection=Selection("cross_entropy_nats", "min"),
)

STREAM = Experiment(
    name="tiny/stream",
    task=CharacterTask(source="embedded", mode="stream", window=6),
    model=Model(
        size=10,
        cell="lstm",
        matrix=LowRankPlusDiagonal(3),
        dropout_input=0.2,
        dropout_state=0.2,
        dropout_output=0.2,
    ),
    optimiser=Adam(1e-2),
    clipping=ClipNorm(1.0),
    schedule=Cosine(warmup=3),
    batch_size=64,
    updates=30,
    evaluate_every=11,
    accumulate=2,
    selection=Selection("bits_per_character_micro", "min"),
)

HIGHWAY = Experiment(
    name="tiny/highway",
    task=FlatMnistTask(source="synthetic", pool=4, sizes=(60, 40, 40)),
    model=Model(
        size=16,
        cell="highway",
        num_layers=2,
        matrix=LowRank(4),
        carry_bias=1.0,
        batch_norm=True,
        dropout_input=0.1,
        dropout_state=0.1,
        dropout_bottleneck=0.1,
        dropout_output=0.1,
    ),
    optimiser=Adam(0.3),
    schedule=HalveOnPlateau(patience=1, halvings=3, return_to_best=True),
    batch_size=20,
    epochs=14,
    selection=Selection("error_percent", "min"),
)

ADDITION = Experiment(
    name="tiny/addition",
    task=AdditionTask(steps=6, train_size=None, eval_size=30),
    model=Model(size=8, matrix=LowRank(2), carry_bias=2.0, learn_initial_state=True),
    optimiser=RmsProp(5e-3),
    clipping=ClipComponents(1.0),
    batch_size=10,
    updates=24,
    evaluate_every=8,
    selection=Selection("mse_paper_distribution", "min", keep="last"),
)

DIGITS = Experiment(
    name="tiny/digits",
    task=SequentialMnistTask(permutation="common", source="synthetic", pool=7, sizes=(60, 40, 40)),
    model=Model(size=8, matrix=LowRankPlusDiagonal(2), carry_bias=2.0, head_hidden=6),
    optimiser=Adam(1e-2),
    batch_size=20,
    epochs=8,
    selection=Selection("cross_entropy_nats", "min"),
)

SENTENCES = Experiment(
    name="tiny/sentences",
    task=CharacterTask(source="embedded", mode="sentences", longest=60, order="shuffled"),
    model=Model(
        size=10,
        matrix=LowRankPlusDiagonal(3, tied=True),
        init="orthogonal-normal",
        dropout_input=0.1,
        dropout_input_per="step",
        dropout_state=0.2,
    ),
    optimiser=Adam(1e-2),
    clipping=ClipNorm(1.0),
    nan_policy=0.01,
    batch_size=8,
    updates=24,
    evaluate_every=12,
    patience=5,
    selection=Selection("perplexity_macro", "min"),
)

URNN = replace(
    COPY,
    name="tiny/urnn",
    model=Model(size=6, cell="urnn"),
    ema=None,
    nan_policy="stop",
    updates=12,
)

TINY = (COPY, STREAM, HIGHWAY, ADDITION, DIGITS, SENTENCES, URNN)
BY_NAME = {experiment.name: experiment for experiment in TINY}

CLOCK = ("seconds",)
"""The only keys of a result that differ between two runs of one experiment on one machine."""


def outcome(folder: Path) -> dict[str, object]:
    """Metrics and weights of a finished run, as bytes, and its result without the clock."""
    result = json.loads((folder / "result.json").read_text())
    return {
        "metrics": (folder / "metrics.jsonl").read_bytes(),
        "weights": (folder / "weights.safetensors").read_bytes(),
        "result": {key: value for key, value in result.items() if key not in CLOCK},
    }
