"""Learning rates, model selection, patience and plateaus as pure functions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from tiny_runs import ADDITION, COPY, HIGHWAY

from passnet.config import Constant, Cosine, HalveOnPlateau, Selection
from passnet.training import load_run, train
from passnet.training.progress import Progress, improves, judge, keeps_best
from passnet.training.schedules import rate_factor

METRIC = COPY.selection.metric


def test_constant():
    assert {rate_factor(Constant(), k, total=10) for k in range(10)} == {1.0}


def test_cosine_rises_in_a_line_and_falls_to_its_end():
    schedule = Cosine(warmup=4, final=0.1)
    factors = [rate_factor(schedule, k, total=104) for k in range(105)]
    assert factors[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert factors[54] == pytest.approx(0.55)
    assert factors[104] == pytest.approx(0.1)
    assert all(a >= b for a, b in itertools.pairwise(factors[4:]))


def test_cosine_without_warm_up_begins_at_the_peak():
    assert rate_factor(Cosine(), 0, total=10) == 1.0


@pytest.mark.parametrize("warmup", [9, 10, 11, 1_000])
def test_a_warm_up_may_take_the_whole_run(warmup):
    factors = [rate_factor(Cosine(warmup=warmup), k, total=10) for k in range(10)]
    assert factors == pytest.approx([min((k + 1) / warmup, 1.0) for k in range(10)])


def test_plateau_halves():
    schedule = HalveOnPlateau()
    assert rate_factor(schedule, 1234, total=10_000, halvings=3) == 0.125


def feed(experiment, values):
    progress, verdicts = Progress(), []
    for value in values:
        progress.update += 10
        verdicts.append(
            judge(progress, {experiment.selection.metric: value}, experiment=experiment)
        )
        if progress.stopped:
            break
    return progress, verdicts


def test_the_best_is_kept_and_the_first_of_equals():
    progress, verdicts = feed(COPY, [3.0, 2.0, 2.0, 2.5])
    assert [verdict.better for verdict in verdicts] == [True, True, False, False]
    assert (progress.best_value, progress.best_update, progress.bad) == (2.0, 20, 2)
    assert progress.best_scores == {METRIC: 2.0}
    assert progress.last_scores == {METRIC: 2.5}


def test_larger_may_be_better():
    experiment = replace(COPY, selection=Selection("accuracy", "max"))
    progress, _ = feed(experiment, [0.1, 0.5, 0.3])
    assert progress.best_value == 0.5


def test_what_is_not_finite_is_never_the_best():
    progress, _ = feed(COPY, [math.nan, math.inf, 4.0, math.nan])
    assert progress.best_value == 4.0
    assert progress.last_scores == {METRIC: None}
    assert not improves(math.inf, None, mode="max")


def test_patience_ends_a_run():
    experiment = replace(COPY, patience=3)
    progress, verdicts = feed(experiment, [3.0, 4.0, 2.0, 5.0, 5.0, 5.0, 1.0])
    assert len(verdicts) == 6
    assert progress.stopped == "patience: 3 evaluations without a better one"
    assert progress.best_value == 2.0


def test_a_plateau_halves_goes_back_and_in_the_end_stops():
    schedule = HalveOnPlateau(patience=2, halvings=2, return_to_best=True)
    experiment = replace(HIGHWAY, schedule=schedule)
    progress, verdicts = feed(experiment, [5.0] + [6.0] * 10)
    assert [verdict.back for verdict in verdicts] == [False, False, True, False, True, False, False]
    assert progress.halvings == 2
    assert progress.stopped == "halvings: all 2 are spent"


def test_a_better_value_begins_the_plateau_anew():
    schedule = HalveOnPlateau(patience=2, halvings=2, return_to_best=False)
    experiment = replace(HIGHWAY, schedule=schedule)
    progress, verdicts = feed(experiment, [5.0, 6.0, 4.0, 6.0, 6.0])
    assert progress.halvings == 1
    assert not any(verdict.back for verdict in verdicts)


def test_the_last_parameters_may_be_the_result():
    progress, _ = feed(ADDITION, [1.0])
    assert not keeps_best(ADDITION.selection, progress)
    assert keeps_best(COPY.selection, progress)
    assert not keeps_best(COPY.selection, Progress())


def test_the_result_names_the_update_whose_parameters_were_tested(tmp_path):
    result = train(HIGHWAY, tmp_path, device="cpu")
    lines = load_run(tmp_path).metrics()
    scores = {x["update"]: x["error_percent"] for x in lines if x["kind"] == "valid"}
    best = min(scores, key=lambda update: scores[update])  # the first of equals
    assert best < result.updates == max(scores)
    assert result.selected_update == best
    assert [x["update"] for x in lines if x["kind"] == "test"] == [best]
