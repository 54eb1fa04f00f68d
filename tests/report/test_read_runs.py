"""Reading run folders: unfinished ones are runs, damaged ones are one clear sentence."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from made_up_runs import experiment_of, write_run

from passnet.cli import main
from passnet.report import ReportError
from passnet.report.read import find_runs, read_run

NAME = "quick/copy"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", experiment_of(NAME, seed=3), value=0.01, start=2.0)


def test_a_finished_run(run_folder):
    run = read_run(run_folder)
    assert run.experiment == experiment_of(NAME, seed=3)
    assert run.outcome is not None
    assert run.outcome.value == 0.01
    assert run.outcome.chance["cross_entropy_nats"] == 0.04
    assert len(run.evaluations) == 12
    assert run.evaluations[-1].update == run.reached == 2000
    assert run.facts["versions"]["torch"] == "0.made-up"


def test_an_unfinished_run_and_its_torn_last_line(tmp_path):
    write_run(tmp_path / "run", experiment_of(NAME), value=0.01, start=2.0, finished=False)
    (run,) = find_runs([tmp_path])
    assert run.outcome is None
    assert run.reached == run.evaluations[-1].update == 1000


def test_a_run_that_has_only_begun(run_folder):
    (run_folder / "metrics.jsonl").unlink()
    (run_folder / "result.json").unlink()
    run = read_run(run_folder)
    assert (run.reached, run.evaluations, run.outcome) == (0, (), None)


def test_runs_are_found_at_any_depth_each_once_and_nothing_below_a_run(tmp_path, run_folder):
    deep = write_run(tmp_path / "a" / "b" / "c", experiment_of(NAME), value=0.1)
    write_run(run_folder / "checkpoints" / "inner", experiment_of(NAME), value=0.1)
    runs = find_runs([tmp_path, run_folder, tmp_path / "a"])
    assert {run.path for run in runs} == {deep, run_folder}
    assert {run.place for run in runs} == {"a/b/c", "run"}


def test_numbers_that_are_not_finite_become_none(run_folder):
    line = '{"kind": "valid", "update": 7, "epoch": null, "cross_entropy_nats": NaN}\n'
    (run_folder / "metrics.jsonl").write_text(line)
    record = json.loads((run_folder / "result.json").read_text())
    record["value"] = float("inf")
    (run_folder / "result.json").write_text(json.dumps(record))
    run = read_run(run_folder)
    assert run.evaluations[0].scores == {"cross_entropy_nats": None}
    assert run.outcome is not None and run.outcome.value is None


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("experiment.json", "{", "it is not JSON"),
        ("experiment.json", "[1]", "expected a JSON object"),
        ("experiment.json", "{}", "is not of a passnet run"),
        ("experiment.json", '{"format": "passnet-run", "version": 99}', "version 99"),
        ("experiment.json", '{"format": "passnet-run", "version": 1}', "it has no 'identity'"),
        (
            "experiment.json",
            '{"format": "passnet-run", "version": 1, "identity": "a", "data": "b"}',
            "its 'data' are not a JSON object",
        ),
        (
            "experiment.json",
            '{"format": "passnet-run", "version": 1, "identity": "a"}',
            "cannot be understood",
        ),
        ("result.json", "", "it is not JSON"),
        ("result.json", '{"metric": "accuracy"}', "has no 'value'"),
        (
            "result.json",
            '{"metric": "accuracy", "value": 0.5, "updates": Infinity}',
            "infinity to integer",
        ),
        ("metrics.jsonl", '{"kind": "valid"}\n', "damaged at line 1"),
        ("metrics.jsonl", '\n{"kind": "train", "update": 1, "loss": 1}\nnonsense\n', "line 3"),
        ("metrics.jsonl", '{"kind": "valid", "update": 1, "accuracy": "high"}\n', "line 1"),
        ("metrics.jsonl", "7\n", "line 1"),
        ("metrics.jsonl", '{"kind": "valid", "update": Infinity}\n', "line 1"),
    ],
)
def test_a_damaged_file_is_named_in_one_sentence(run_folder, file, content, says):
    (run_folder / file).write_text(content)
    with pytest.raises(ReportError) as error:
        find_runs([run_folder])
    assert says in str(error.value)
    assert str(run_folder / file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_damaged_run_is_left_out_and_named(tmp_path, run_folder, capsys):
    bad = write_run(tmp_path / "bad", experiment_of(NAME), value=0.5) / "result.json"
    bad.write_text("{}")
    said: list[str] = []
    assert [run.path for run in find_runs([tmp_path], warn=said.append)] == [run_folder]
    assert said == [f"{bad} is damaged: it has no 'metric'; the run is left out"]
    for more in ([], ["--json"], ["--out", str(tmp_path / "page.html")]):
        assert main(["report", str(tmp_path), *more]) == 1
        assert capsys.readouterr().err.startswith(f"passnet: {said[0]}\n")
    assert "run" in (tmp_path / "page.html").read_text()


def test_where_the_only_run_is_damaged_nothing_else_is_said(run_folder, capsys):
    (run_folder / "result.json").write_text("{}")
    for more, out in (([], ""), (["--json"], "[]\n")):
        assert main(["report", str(run_folder), *more]) == 1
        said = capsys.readouterr()
        assert said.out == out and said.err.count("\n") == 1 and "is left out" in said.err
    assert main(["report", str(run_folder), str(run_folder / "none")]) == 2
    assert "no folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["page", "page.htm", "page.HTML"])
def test_a_page_may_have_no_ending(run_folder, tmp_path, name):
    assert main(["report", str(run_folder), "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text().startswith("<!")


@pytest.mark.parametrize("key", ["value", "seconds", "updates", "parameters", "test"])
def test_a_result_with_a_word_for_a_number_is_refused(run_folder, key):
    record = json.loads((run_folder / "result.json").read_text())
    record[key] = "many"
    (run_folder / "result.json").write_text(json.dumps(record))
    with pytest.raises(ReportError, match=r"result\.json is damaged"):
        read_run(run_folder)


@pytest.mark.parametrize(("key", "other"), [("preset", "psmnist/gru-128"), ("seed", 7)])
def test_a_result_of_another_run_is_refused(run_folder, key, other):
    record = json.loads((run_folder / "result.json").read_text())
    record[key] = other
    (run_folder / "result.json").write_text(json.dumps(record))
    with pytest.raises(ReportError, match=rf"is the result of .*{other}.*, but experiment\.json"):
        read_run(run_folder)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ReportError, match="there is no folder"):
        find_runs([tmp_path / "nowhere"])


def test_training_writes_what_is_read_here():
    from passnet.report import read
    from passnet.training.result import Result

    assert {item.name for item in fields(read.Outcome)} <= {item.name for item in fields(Result)}
