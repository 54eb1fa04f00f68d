"""How long a run takes, by what results of its preset record."""

from __future__ import annotations

import pytest
from made_up_runs import experiment_of, write_run

from passnet.report.groups import group_runs
from passnet.report.plan import Places, read_plan
from passnet.report.read import find_runs
from passnet.report.run_time import run_time, share_of

GRU, WORDS, LSTM = "psmnist/gru-128", "char-lm/gru-1000", "char-lm/lstm-1000-dropout"
NO_TIME = "time: 5 minutes have passed"


@pytest.fixture
def write(tmp_path):
    def write(place, name, *, seconds, device="cuda:0 (GPU)", **options):
        kept = ("value", "stopped", "diverged", "finished")
        told = {key: options.pop(key) for key in kept if key in options}
        run = experiment_of(name, **options)
        write_run(tmp_path / place, run, seconds=seconds, device=device, **{"value": 0.9} | told)

    return write


def taken(folder, name):
    groups = group_runs(find_runs([folder]))
    return next((run_time(g) for g in groups if g.is_preset and g.name == name), None)


def test_without_results_of_the_preset_there_is_none(write, tmp_path):
    write("other", GRU, batch_size=40, seconds=10.0)
    write("more", "psmnist/lr-gru-128-24", seconds=10.0)
    write("diverged", GRU, diverged=900, seconds=10.0)
    write("unfinished", GRU, finished=False, seconds=10.0)
    assert taken(tmp_path, GRU) is None


def test_the_mean_of_whole_runs_on_the_device_that_has_most(write, tmp_path):
    write("a", GRU, seconds=100.0)
    write("b", GRU, seed=1, seconds=200.0)
    write("c", GRU, seed=2, seconds=9000.0, device="cpu (1 thread)")
    write("d", GRU, seed=3, seconds=5.0, stopped=NO_TIME)
    found = taken(tmp_path, GRU)
    assert found is not None
    assert (found.seconds, found.device, found.bound) == (150.0, "cuda:0 (GPU)", "")


def test_rarer_evaluations_take_less_time(write, tmp_path):
    write("a", GRU, seconds=100.0, evaluate_every=3000)
    found = taken(tmp_path, GRU)
    assert found is not None and found.bound == "≥"


def test_runs_cut_short_tell_the_most_that_it_can_take(write, tmp_path):
    write("a", WORDS, seconds=600.0, updates=100_000)
    found = taken(tmp_path, WORDS)
    assert found is not None and found.bound == "≤" and found.seconds == pytest.approx(6000)
    write("b", WORDS, seed=1, seconds=500.0)
    found = taken(tmp_path, WORDS)
    assert found is not None and found.bound == "" and found.seconds == 500.0


def test_epochs_tell_the_share_where_updates_do_not(write, tmp_path):
    write("a", LSTM, seconds=60.0, stopped=NO_TIME, finished=True)
    (run,) = find_runs([tmp_path])
    assert share_of(run) == 1.0
    metrics = tmp_path / "a" / "metrics.jsonl"
    lines = [line for line in metrics.read_text().splitlines(keepends=True) if "valid" in line]
    metrics.write_text("".join(lines[:3]))
    (run,) = find_runs([tmp_path])
    assert 0.2 < share_of(run) < 0.3
    found = taken(tmp_path, LSTM)
    assert found is not None and found.seconds == pytest.approx(60 / share_of(run))
    assert found.bound == ""


def test_a_plan_has_the_times_and_what_was_cut_short(write, tmp_path):
    write("results/x", WORDS, seconds=600.0, updates=95_000)
    write("results/y", WORDS, seconds=600.0, updates=70_000)
    write("results/z", WORDS, seconds=600.0, batch_size=7)
    plan = read_plan([WORDS, LSTM], [0, 1], Places(tmp_path / "results", tmp_path / "runs"))
    assert list(plan.times) == [WORDS]
    assert [step.state for step in plan.steps] == ["missing"] * 4
    short = [step.short for step in plan.steps]
    assert short[0] is not None and short[0].reached == 95_000 and short[1:] == [None] * 3
