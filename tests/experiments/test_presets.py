"""The presets against the paper: rows, numbers and settings, task by task."""

from __future__ import annotations

import pytest

from passnet.config import (
    Adam,
    ClipComponents,
    ClipNorm,
    Constant,
    Dense,
    HalveOnPlateau,
    LowRank,
    LowRankPlusDiagonal,
    RmsProp,
)
from passnet.experiments import get, names

COPY = {"copy-500": 35_000, "copy-variable-length": 30_000, "copy-variable-lag": 38_000}
COPY_MODELS = ("gru-128", "lrd-gru-128-50", "lrd-gru-128-50-wn", "urnn-721")

PSMNIST = {
    "gru-128": (128, Dense(), 0.930, 0.928),
    "lr-gru-128-24": (128, LowRank(24), 0.934, 0.918),
    "lr-gru-512-4": (512, LowRank(4), 0.925, 0.913),
    "lrd-gru-64-24": (64, LowRankPlusDiagonal(24), 0.931, 0.919),
    "lrd-gru-128-24": (128, LowRankPlusDiagonal(24), 0.941, 0.935),
    "lrd-gru-256-24": (256, LowRankPlusDiagonal(24), 0.951, 0.947),
}

CHARACTERS = {
    "gru-1000": (1000, Dense(), 2.96),
    "gru-1000-dropout": (1000, Dense(), 2.92),
    "gru-3298-dropout": (3298, Dense(), 2.77),
    "lstm-1000-dropout": (1000, Dense(), 2.92),
    "lrd-gru-1000-64": (1000, LowRankPlusDiagonal(64), 2.92),
    "lrd-gru-3298-128": (3298, LowRankPlusDiagonal(128), 2.95),
    "lrd-gru-3298-128-dropout": (3298, LowRankPlusDiagonal(128), 2.86),
    "lrd-gru-5459-64-dropout": (5459, LowRankPlusDiagonal(64), 2.82),
    "lrd-gru-5459-64-tied-dropout": (5459, LowRankPlusDiagonal(64, tied=True), 2.81),
    "lrd-gru-1000-64-tied": (1000, LowRankPlusDiagonal(64, tied=True), 2.90),
    "lrd-gru-4480-128-tied-dropout": (4480, LowRankPlusDiagonal(128, tied=True), 2.86),
    "lrd-gru-6985-64-tied-dropout": (6985, LowRankPlusDiagonal(64, tied=True), 2.76),
    "lrd-lstm-1740-300-dropout": (1740, LowRankPlusDiagonal(300), 2.86),
}


def test_the_paper_presets_are_these_rows_and_no_others():
    expected = {f"{form}/{model}" for form in COPY for model in COPY_MODELS}
    expected |= {"addition-750/lr-gru-128-24"}
    expected |= {f"psmnist/{row}" for row in PSMNIST}
    expected |= {f"char-lm/{row}" for row in CHARACTERS}
    expected |= {"highway-mnist/lr-1024-256", "highway-mnist/lrd-1024-256"}
    assert {name for name in names() if get(name).protocol == "paper"} == expected


@pytest.mark.parametrize("form", COPY)
@pytest.mark.parametrize("row", COPY_MODELS)
def test_copy(form, row):
    experiment = get(f"{form}/{row}")
    assert experiment.task.lag == (500 if form == "copy-500" else 100)
    assert (
        experiment.task.form
        == {
            "copy-500": "fixed",
            "copy-variable-length": "variable_length",
            "copy-variable-lag": "variable_lag",
        }[form]
    )
    assert (experiment.task.train_size, experiment.task.eval_size) == (100_000, 10_000)
    assert experiment.optimiser == RmsProp(1e-3, decay=0.9, epsilon=1e-8, accumulator_start=1e-3)
    assert experiment.clipping == ClipNorm(1.0)
    assert experiment.batch_size == 20
    assert experiment.nan_policy == ("stop" if row.endswith("wn") else 0.1)
    if experiment.model.cell == "gru":
        assert experiment.model.learn_initial_state
        assert experiment.model.reset == "before"
        assert experiment.model.carry_bias == 4.0
        assert experiment.model.init == "glorot"
    if row == "lrd-gru-128-50":
        assert (experiment.paper.value, experiment.paper.relation) == (1e-3, "below")
        assert experiment.paper.updates == experiment.updates == COPY[form]


def test_the_stabilised_copy_model_differs_only_in_what_stabilises_it():
    model = get("copy-500/lrd-gru-128-50-wn").model
    assert (model.weight_norm, model.max_row_norm) == (True, 10.0)
    assert model.matrix == get("copy-500/lrd-gru-128-50").model.matrix


def test_addition():
    experiment = get("addition-750/lr-gru-128-24")
    task = experiment.task
    assert (task.steps, task.train_size, task.eval_size) == (750, 100_000, 10_000)
    assert (experiment.model.matrix, experiment.model.carry_bias) == (LowRank(24), 4.0)
    assert experiment.model.reset == "before"
    assert experiment.optimiser == RmsProp(1e-3, epsilon=0.0)
    assert experiment.clipping == ClipComponents(1.0)
    assert (experiment.batch_size, experiment.updates) == (20, 14_500)
    assert (experiment.paper.metric, experiment.paper.value) == (
        "mse_paper_distribution",
        0.003,
    )


@pytest.mark.parametrize("row", PSMNIST)
def test_psmnist(row):
    experiment = get(f"psmnist/{row}")
    size, matrix, validation, test = PSMNIST[row]
    assert (experiment.model.size, experiment.model.matrix) == (size, matrix)
    assert (experiment.model.reset, experiment.model.carry_bias) == ("before", 5.0)
    assert (experiment.paper.validation, experiment.paper.value) == (validation, test)
    assert experiment.paper.where == "table 1"
    assert experiment.optimiser == RmsProp(5e-4, epsilon=0.0)
    assert experiment.clipping == ClipComponents(1.0)
    assert experiment.batch_size == 20
    assert experiment.evaluate_every == 300
    assert experiment.selection.metric == "cross_entropy_nats"
    assert 320_000 < experiment.updates < 330_000
    task = experiment.task
    assert (task.permutation, task.source, task.pool) == ("author", "mnist", 1)


@pytest.mark.parametrize("row", CHARACTERS)
def test_character_models(row):
    experiment = get(f"char-lm/{row}")
    model, task = experiment.model, experiment.task
    size, matrix, perplexity = CHARACTERS[row]
    assert (model.size, model.matrix) == (size, matrix)
    assert (experiment.paper.where, experiment.paper.value) == ("table 2", perplexity)
    assert model.learn_initial_state is False
    drops = (model.dropout_input, model.dropout_state, model.dropout_output)
    if "lstm" in row:
        assert (model.cell, model.init) == ("lstm", "uniform")
        assert drops == (0.3, 0.3, 0.5)
        assert model.dropout_input_per == "feature"
        assert experiment.optimiser == Adam(2e-4, weight_decay=1e-7)
        assert experiment.clipping is None
        assert (experiment.batch_size, experiment.epochs) == (20, 55)
        assert (task.mode, task.window, task.vocabulary) == ("stream", 35, 49)
        assert task.unk == "symbol"
        assert experiment.paper.metric == "perplexity_micro"
    else:
        assert (model.cell, model.reset, model.init) == ("gru", "after", "orthogonal-normal")
        assert drops == ((0.1, 0.5, 0.5) if row.endswith("dropout") else (0.0, 0.0, 0.0))
        assert model.dropout_input_per == ("step" if row.endswith("dropout") else "feature")
        assert experiment.optimiser == Adam(1e-3)
        assert experiment.clipping == ClipNorm(1.0)
        assert experiment.nan_policy == 0.01
        assert (experiment.batch_size, experiment.evaluate_every) == (32, 5_000)
        assert experiment.patience == 10
        assert (task.mode, task.longest, task.vocabulary) == ("sentences", 500, 51)
        assert (task.order, task.unk, task.average) == ("file", "spelled", "sentence")
        assert experiment.paper.metric == "perplexity_macro"


@pytest.mark.parametrize(
    ("row", "matrix", "test"),
    [
        ("lr-1024-256", LowRank(256), 0.9883),
        ("lrd-1024-256", LowRankPlusDiagonal(256), 0.9864),
    ],
)
def test_highway(row, matrix, test):
    experiment = get(f"highway-mnist/{row}")
    model = experiment.model
    assert (model.cell, model.size, model.num_layers, model.matrix) == ("highway", 1024, 5, matrix)
    assert (model.activation, model.carry_bias, model.batch_norm) == ("relu", 1.0, True)
    drops = (
        model.dropout_input,
        model.dropout_state,
        model.dropout_bottleneck,
        model.dropout_output,
    )
    assert drops == (0.2, 0.3, 0.3, 0.5)
    assert experiment.optimiser == Adam(3e-3)
    assert experiment.schedule == HalveOnPlateau(patience=3, halvings=14, return_to_best=True)
    assert (experiment.batch_size, experiment.evaluate_every) == (100, None)
    assert (experiment.task.l2, experiment.task.l2_of) == (1e-3, "square")
    assert experiment.selection.metric == "error_percent"
    assert (experiment.paper.metric, experiment.paper.value) == ("accuracy", test)


def test_only_highway_changes_its_rate_in_the_paper():
    for name in names():
        experiment = get(name)
        if experiment.protocol == "paper" and experiment.model.cell != "highway":
            assert experiment.schedule == Constant()
            assert experiment.ema is None


def test_the_papers_number_is_of_a_metric_of_the_task():
    for experiment in map(get, names()):
        assert experiment.paper is None or experiment.paper.metric in experiment.task.metrics


def test_our_presets_are_labelled_ours_and_quick_ones_need_no_files():
    for name in names():
        experiment = get(name)
        group = name.partition("/")[0]
        assert (experiment.protocol == "ours") == (group in ("beyond", "quick"))
        if group == "quick":
            source = getattr(experiment.task, "source", None)
            assert source in (None, "synthetic", "embedded")
            assert experiment.paper is None


def test_there_is_a_quick_preset_of_every_task_and_every_text_form():
    quick = [get(name) for name in names() if name.startswith("quick/")]
    assert {experiment.task.kind for experiment in quick} == {
        get(name).task.kind for name in names()
    }
    forms = {e.task.mode for e in quick if e.task.kind == "character"}
    assert forms == {"sentences", "stream"}


def test_two_presets_never_describe_the_same_run():
    from passnet.config import identity

    seen: dict[str, str] = {}
    for name in names():
        other = seen.setdefault(identity(get(name)), name)
        assert other == name
