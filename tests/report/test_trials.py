"""Trials: in the order of their scores on validation data, with those of the test beside them."""

from __future__ import annotations

from made_up_runs import experiment_of, write_run

from passnet.report.groups import group_runs
from passnet.report.page import render_page
from passnet.report.read import find_runs
from passnet.report.trials import trials

NAME = "psmnist/lrd-gru-128-24"


def test_the_best_on_validation_is_first_whatever_the_test_says(tmp_path):
    for size, value, validation in ((7, 0.95, 0.91), (8, 0.93, 0.94), (9, 0.94, 0.92)):
        run = experiment_of(NAME, batch_size=size)
        write_run(tmp_path / str(size), run, value=value, validation=validation)
    write_run(tmp_path / "10", experiment_of(NAME, batch_size=10), value=0.9, diverged=7)
    (tried,) = trials(group_runs(find_runs([tmp_path])))
    assert [(row.changes, row.validation, row.score) for row in tried.rows] == [
        ("batch_size=8", "94.00 %", "93.00 %"),
        ("batch_size=9", "92.00 %", "94.00 %"),
        ("batch_size=7", "91.00 %", "95.00 %"),
        ("batch_size=10", "\u2013", "diverged at update 7"),
    ]
    page = render_page([tmp_path])
    assert '<td class="number">94.00 %</td><td class="number ours">93.00 %</td>' in page
