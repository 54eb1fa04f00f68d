"""What the page counts, and what its list of runs says."""

from __future__ import annotations

import json

from made_up_runs import experiment_of, write_run

from passnet.report import numbers
from passnet.report.every_run import run_line
from passnet.report.groups import group_runs
from passnet.report.overview import overview
from passnet.report.page import render_page
from passnet.report.paper import TABLES
from passnet.report.read import find_runs

ROWS = sum(len(table.presets) for table in TABLES)
WHOLE, CUT, CAPPED = "char-lm/lrd-gru-1000-64", "char-lm/gru-1000", "char-lm/lstm-1000-dropout"
NO_TIME = "time: 5 minutes have passed"


def test_rows_that_were_cut_short_are_not_finished_ones(tmp_path):
    write_run(tmp_path / "whole", experiment_of(WHOLE), value=2.9)
    write_run(tmp_path / "whole-2", experiment_of(WHOLE, seed=1), value=2.9, stopped=NO_TIME)
    write_run(tmp_path / "cut", experiment_of(CUT), value=2.9, stopped=NO_TIME)
    capped = experiment_of("char-lm/gru-1000-dropout", updates=7000)
    write_run(tmp_path / "capped", capped, value=2.9)
    begun = experiment_of("psmnist/gru-128")
    write_run(tmp_path / "begun", begun, value=0.9, finished=False)
    found = overview(group_runs(find_runs([tmp_path])))
    assert (found.rows, found.whole, found.printed) == (ROWS, 1, 19)
    assert found.cut_short == (CUT, "char-lm/gru-1000-dropout")
    assert found.begun == ("psmnist/gru-128",) and len(found.missing) == ROWS - 4
    assert (found.good, found.below, found.cut_good, found.cut_below) == (1, 0, 2, 0)
    page = " ".join(render_page([tmp_path]).split())
    assert "match or better it; of those cut short 2 of 2</dt><dd>1 of 1<" in page
    assert f"2 cut short by time, 1 not finished, {ROWS - 4} not run</dt><dd>1 of {ROWS}<" in page
    listed = page[page.index('id="cut-short"') :]
    assert f"<code>{CUT}</code>" in listed[: listed.index("</ul>")]


def test_second_runs_and_trials_are_counted_as_every_run_lists_them(tmp_path):
    for place in ("a", "b"):
        write_run(tmp_path / place, experiment_of(WHOLE), value=2.9, seconds=7200.0)
    write_run(tmp_path / "c", experiment_of(WHOLE, batch_size=7), value=2.9, seconds=7200.0)
    write_run(tmp_path / "d", experiment_of(CUT), value=2.9, finished=False)
    found = overview(group_runs(find_runs([tmp_path])))
    assert (found.results, found.unfinished, found.hours) == (3, 1, "6.0 h")
    page = render_page([tmp_path])
    assert "All 4 run folders, 3 with a result and 1 without" in page


def test_the_commits_are_those_of_the_beginning_and_of_the_result(tmp_path):
    for place in ("a", "b"):
        folder = write_run(tmp_path / place, experiment_of(WHOLE), value=2.9)
        result = json.loads((folder / "result.json").read_text())
        result["commit"] = f"{'f' * 40}-dirty" if place == "a" else None
        (folder / "result.json").write_text(json.dumps(result))
    write_run(tmp_path / "c", experiment_of(WHOLE), value=2.9, finished=False)
    (group,) = group_runs(find_runs([tmp_path]))
    lines = [run_line(run, group) for run in (*group.runs, *group.repeated)]
    commits = {line["place"]: line["commit"] for line in lines}
    assert commits == {
        "a": "0123456789, later ffffffffff-dirty",
        "b": "0123456789",
        "c": "0123456789",
    }
    assert {line["protocol"] for line in lines} == {"paper"}
    assert numbers.commit(None) == numbers.ABSENT
