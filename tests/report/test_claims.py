"""The paper's conclusions, judged by runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import experiment_of, write_run

from passnet.config import apply_overrides
from passnet.experiments import get, names
from passnet.report import readme_results, write_page
from passnet.report.claims import (
    CLAIMS,
    Claim,
    above,
    as_printed,
    exceeds,
    fails,
    judged,
    no_worse,
    solves,
    sooner,
    within,
)
from passnet.report.conclusions import CONCLUSIONS
from passnet.report.groups import group_runs
from passnet.report.read import find_runs

RESULTS = Path(__file__).parents[2] / "results"
DENSE, LOW = "psmnist/gru-128", "psmnist/lr-gru-128-24"
COPY, UNITARY = "copy-500/lrd-gru-128-50", "copy-500/urnn-721"
ADDITION = "addition-750/lr-gru-128-24"


def judge(folder, *tests, rows, others=False):
    groups = group_runs(find_runs([folder]))
    (found,) = judged([Claim("it is so", "section 9", rows, tests, others)], groups)
    return found


def write(folder, name, *values, start=None):
    for seed, value in enumerate(values):
        run = experiment_of(name, seed=seed)
        write_run(folder / name / str(seed), run, value=value, start=start)


@pytest.mark.parametrize(
    ("dense", "low", "verdict", "caveat"),
    [
        ((0.93,), (0.94,), "holds", "one seed each"),
        ((0.94,), (0.93,), "does not hold", "one seed each"),
        ((0.93,), (0.931,), "too few seeds to tell", "one seed each"),  # one test has 0.0026
        ((0.93,), (0.94, 0.94), "holds", "1 of 2 rows: one seed"),
        ((0.90, 0.93, 0.96), (0.94, 0.94, 0.94), "does not hold", ""),  # seeds differ by more
        ((0.90, 0.93, 0.96), (0.94, 0.94), "too few seeds to tell", ""),
    ],
)
def test_one_row_better_than_another(tmp_path, dense, low, verdict, caveat):
    write(tmp_path, DENSE, *dense)
    write(tmp_path, LOW, *low)
    found = judge(tmp_path, above(LOW, DENSE), rows=(LOW, DENSE))
    assert (found.verdict, found.caveat) == (verdict, caveat)
    worse = sum(low) / len(low) < sum(dense) / len(dense) - 0.003
    found = judge(tmp_path, no_worse(LOW, DENSE), rows=(LOW, DENSE))
    assert found.verdict == ("does not hold" if worse else "holds")


def test_a_lower_perplexity_is_better(tmp_path):
    write(tmp_path, "char-lm/gru-1000", 2.9)
    write(tmp_path, "char-lm/lrd-gru-1000-64", 2.8)
    rows = ("char-lm/gru-1000", "char-lm/lrd-gru-1000-64")
    assert judge(tmp_path, above(*rows), rows=rows).verdict == "does not hold"
    assert judge(tmp_path, above(*rows[::-1]), rows=rows).verdict == "holds"


def test_memory_tasks_are_judged_seed_by_seed(tmp_path):
    write(tmp_path, COPY, 1e-4, 2e-3, 3e-3, start=1.0)
    write(tmp_path, UNITARY, 1e-6, 1e-6, 1e-6, start=1.0)
    rows = (COPY, UNITARY)
    verdicts = {
        judge(tmp_path, test, rows=rows).verdict: test
        for test in (solves(UNITARY), solves(COPY), fails(COPY))
    }
    assert list(verdicts) == ["holds", "holds in part", "does not hold"]
    assert judge(tmp_path, sooner(UNITARY, COPY), rows=rows).verdict == "holds"
    assert judge(tmp_path, sooner(COPY, UNITARY), rows=rows).verdict == "does not hold"
    assert judge(tmp_path, within(UNITARY, 35_000), rows=rows).verdict == "holds"
    assert judge(tmp_path, within(COPY, 35_000), rows=rows).verdict == "does not hold"
    both = judge(tmp_path, solves(UNITARY), fails(UNITARY), rows=rows)
    assert both.verdict == "holds in part" and both.kind == ""
    words = dict(both.found)
    assert words[COPY].startswith("solved by 1 of 3 seeds, after ")
    assert words[UNITARY].startswith("solved by 3 of 3 seeds, after ")


def test_the_papers_number_and_others(tmp_path):
    write(tmp_path, ADDITION, 2e-4, 0.5, 1e-4)
    found = judge(tmp_path, as_printed(ADDITION), rows=(ADDITION,))
    assert found.verdict == "holds in part"
    assert dict(found.found)[ADDITION].endswith("; partly reached by 2 of 3 seeds")
    write(tmp_path, LOW, 0.92)
    for accuracy, verdict in ((0.914, "holds"), (0.94, "does not hold")):
        assert judge(tmp_path, exceeds(LOW, accuracy), rows=(LOW,)).verdict == verdict


def test_what_was_cut_short_and_other_settings_are_said(tmp_path):
    name, stopped = "char-lm/gru-1000", "time: 5 minutes have passed"
    write_run(tmp_path / "cut", experiment_of(name), value=2.9, stopped=stopped)
    found = judge(tmp_path, no_worse(name, name), rows=(name,))
    assert found.found == ((name, "2.900, cut short at 1\u202f000\u202f000"),)
    lstm = "char-lm/lstm-1000-dropout"
    write(tmp_path, lstm, 3.0)
    spelled = apply_overrides(get(lstm), ("task.unk=spelled", "task.vocabulary=51"))
    write_run(tmp_path / "b", spelled, value=2.9)
    for others, words in ((False, "2.970"), (True, "2.970; with <unk> spelled out: 2.871")):
        found = judge(tmp_path, no_worse(lstm, lstm), rows=(lstm,), others=others)
        assert found.found == ((lstm, words),)


def test_a_claim_about_rows_without_results_is_not_judged(tmp_path):
    write(tmp_path, DENSE, 0.93)
    found = judge(tmp_path, above(LOW, DENSE), rows=(LOW, DENSE))
    assert (found.verdict, found.found) == ("not run", ((DENSE, "93.00 %"),))
    assert CLAIMS not in readme_results([tmp_path])
    write_page([tmp_path], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<span>not run</span>") == len(CONCLUSIONS)


def test_each_conclusion_is_about_rows_of_the_paper():
    for claim in CONCLUSIONS:
        assert claim.tests and set(claim.rows) <= set(names())
        assert not any(name.startswith("beyond/") for name in claim.rows)


def test_what_the_results_in_the_repository_say():
    groups = group_runs(find_runs([RESULTS]))
    verdicts = {claim.text[:40]: claim.verdict for claim in judged(CONCLUSIONS, groups)}
    assert verdicts == {
        "On permuted MNIST all models except the ": "holds",
        "The low-rank GRU is slightly less accura": "too few seeds to tell",
        "Low-rank plus diagonal is more accurate ": "holds",
        "The model of 256 units is the best, on p": "does not hold",
        "A dense GRU solves the memory task with ": "holds",
        "The low-rank plus diagonal GRU solves th": "holds in part",
        "A uRNN with about as many parameters is ": "holds in part",
        "The uRNN learns faster than the low-rank": "holds",
        "With weight norm and max-norm the low-ra": "does not hold",
        "The low-rank GRU reaches a squared error": "holds in part",
        "Low-rank plus diagonal has a lower perpl": "holds",
        "Tied projections do as well as untied on": "holds",
        "At the same number of parameters tied pr": "holds",
        "Dropout lowers the perplexity of the den": "holds in part",
        "The low-rank plus diagonal LSTM has a no": "holds",
        "The diagonal does not help the Highway n": "does not hold",
    }
