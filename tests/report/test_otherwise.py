"""Rows that keep to the paper, beside what its own code or logs give."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_runs import experiment_of, write_run

from passnet.config import apply_overrides, differences
from passnet.experiments import DISCREPANCIES, get
from passnet.report import readme_results, write_page
from passnet.report.groups import group_runs
from passnet.report.otherwise import otherwise
from passnet.report.read import find_runs
from passnet.report.trials import trials

LSTM, COPY = "char-lm/lstm-1000-dropout", "copy-500/lrd-gru-128-50"
SPELLED = apply_overrides(get(LSTM), ("task.unk=spelled", "task.vocabulary=51"))


@pytest.mark.parametrize("entry", [entry for entry in DISCREPANCIES if entry.presets])
def test_the_ledger_names_settings_as_groups_write_them(entry):
    assert entry.settings and entry.words
    for name in entry.presets:
        changed = differences(get(name), apply_overrides(get(name), entry.settings))
        assert tuple(f"{key}={new}" for key, (_, new) in changed.items()) == entry.settings


def words(runs, name):
    return otherwise(name, group_runs(find_runs([runs])))


def test_a_score_with_other_settings_stands_beside_the_row(tmp_path):
    # Micro perplexities of made-up runs are 0.99 times their value.
    write_run(tmp_path / "paper", experiment_of(LSTM), value=3.1)
    assert words(tmp_path, LSTM) == []
    write_run(tmp_path / "other", SPELLED, value=2.9)
    write_run(tmp_path / "more", experiment_of(LSTM, batch_size=50), value=2.5)
    assert words(tmp_path, LSTM) == ["with <unk> spelled out: 2.871"]
    write_run(tmp_path / "second", replace(SPELLED, seed=1), value=2.7)
    assert words(tmp_path, LSTM) == ["with <unk> spelled out: 2.772 ± 0.140, 2 seeds"]
    assert words(tmp_path, "char-lm/lrd-lstm-1740-300-dropout") == []
    assert r"+0.149; with \<unk> spelled out: 2.772" in readme_results([tmp_path])
    page = tmp_path / "page.html"
    write_page([tmp_path], page)
    assert "+0.149; with &lt;unk&gt; spelled out: 2.772" in page.read_text()


def test_seeds_below_a_bound_are_counted(tmp_path):
    write_run(tmp_path / "paper", experiment_of(COPY), value=0.002)
    for seed, value in enumerate((0.0005, 0.002, None, 0.0004)):
        rate = replace(get(COPY).optimiser, learning_rate=0.0015)
        trial = experiment_of(COPY, seed=seed, optimiser=rate)
        diverged = None if value is not None else 900
        write_run(tmp_path / f"trial-{seed}", trial, value=value, diverged=diverged)
    assert words(tmp_path, COPY) == ["at a learning rate of 1.5e-3: reached by 2 of 4 seeds"]
    # Whether a bound was reached, a second run of a seed says as well.
    write_run(tmp_path / "trial-0-again", replace(trial, seed=0), value=0.0003)
    write_run(tmp_path / "trial-1-again", replace(trial, seed=1), value=0.5, finished=False)
    assert words(tmp_path, COPY) == ["at a learning rate of 1.5e-3: reached by 3 of 5 runs"]


def test_second_runs_of_a_seed_are_in_no_mean_but_said(tmp_path):
    for place, value in (("a", 2.9), ("b", 2.8)):
        write_run(tmp_path / place, SPELLED, value=value)
    said = "2.871 (a further run of seed 0, not counted: 2.772)"
    assert words(tmp_path, LSTM) == [f"with <unk> spelled out: {said}"]
    (trial,) = trials(group_runs(find_runs([tmp_path])))[0].rows
    assert (trial.score, trial.left_out) == ("2.871", said[7:-1])
