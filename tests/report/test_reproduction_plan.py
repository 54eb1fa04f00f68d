"""What can be reproduced by name, and which runs it still needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_runs import experiment_of, write_run

from passnet.config import ConfigurationError
from passnet.experiments import get, names
from passnet.report import ReportError
from passnet.report.paper import BEYOND, TABLES
from passnet.report.plan import Places
from passnet.report.plan import read_plan as whole_plan
from passnet.report.targets import find_target, targets

LRD, GRU = "psmnist/lrd-gru-128-24", "psmnist/gru-128"


def test_every_table_of_the_report_has_a_name():
    found = {target.name: target.presets for target in targets()}
    for table in (*TABLES, BEYOND):
        assert any(set(table.presets) <= set(presets) for presets in found.values())
        if not table.anchor.startswith("memory"):
            assert found[table.anchor.replace("-", "")] == table.presets
    assert set(found["paper"]) == {name for name in names() if get(name).protocol == "paper"}
    assert set(found["all"]) == {*found["paper"], *BEYOND.presets}
    assert len(found["all"]) == len(set(found["all"]))


def test_figure_two_is_what_the_paper_draws():
    shown = find_target("figure2").presets
    drawn = {n for n in names() if get(n).paper is not None and get(n).paper.figure == "figure 2"}
    assert drawn <= set(shown)
    assert {name.partition("/")[0] for name in shown} == {
        "copy-500",
        "copy-variable-length",
        "copy-variable-lag",
        "addition-750",
        "psmnist",
    }


@pytest.mark.parametrize("name", ["table1", "Table-1", "table 1", "TABLE_1"])
def test_spellings_of_a_name(name):
    assert find_target(name).name == "table1"


@pytest.mark.parametrize("name", ["copy-500", "copy-500/", "copy-500/gru-128", "quick/copy"])
def test_presets_and_groups_of_them(name):
    rows = find_target(name).presets
    assert rows and all(row.startswith(name.rstrip("/")) for row in rows)
    assert "copy-500/lrd-gru-128-50-wn" not in find_target("copy-500/lrd-gru-128-50").presets


@pytest.mark.parametrize("name", ["", "/", "table3x", "copy-5", "psmnist/lrd"])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ConfigurationError, match=r"table1, table2, copy.*passnet list") as error:
        find_target(name)
    assert repr(name) in str(error.value)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "results", tmp_path / "runs")


def read_plan(*arguments):
    return whole_plan(*arguments).steps


def states(steps) -> dict[tuple[str, int], str]:
    return {(step.experiment.name, step.experiment.seed): step.state for step in steps}


def test_without_folders_everything_is_missing(places):
    steps = read_plan([LRD, GRU], [0, 4], places)
    expected = dict.fromkeys([(LRD, 0), (LRD, 4), (GRU, 0), (GRU, 4)], "missing")
    assert states(steps) == expected and list(states(steps)) == list(expected)
    assert steps[1].experiment == experiment_of(LRD, seed=4)


def test_each_run_has_one_state(places):
    def write(folder, seed, **options):
        place = folder / LRD / f"seed-{seed}"
        write_run(place, experiment_of(LRD, seed=seed), value=0.93, **options)

    write(places.results, 0)
    write(places.results, 1, diverged=70)
    write(places.runs, 1, finished=False)
    write(places.runs, 2)
    write(places.runs, 3, finished=False)
    write(places.runs, 9)
    steps = read_plan([LRD], range(5), places)
    found = [step.state for step in steps]
    assert found == ["there", "there", "finished", "unfinished", "missing"]
    assert steps[1].run.outcome.value is None
    assert steps[3].run.reached == 325_500 // 2
    assert steps[4].run is None


def test_a_result_counts_wherever_it_lies_below_the_folder(places):
    write_run(places.results / "by-hand" / "x", experiment_of(LRD, seed=2), value=0.93)
    assert states(read_plan([LRD], [2], places)) == {(LRD, 2): "there"}


def test_a_copy_that_was_cut_short_is_no_result(places):
    folder = write_run(places.results / LRD / "seed-0", experiment_of(LRD), value=0.93)
    (folder / "result.json").unlink()
    assert states(read_plan([LRD], [0], places)) == {(LRD, 0): "missing"}


def test_a_result_for_want_of_time_is_none_yet(places):
    """Published or not: the run goes on where it trains, or is missing."""
    cut = {"value": 0.8, "stopped": "time: 9 minutes have no room for another evaluation"}
    write_run(places.results / LRD / "seed-0", experiment_of(LRD), **cut)
    assert states(read_plan([LRD], [0], places)) == {(LRD, 0): "missing"}
    write_run(places.runs / LRD / "seed-0", experiment_of(LRD), **cut)
    assert states(read_plan([LRD], [0], places)) == {(LRD, 0): "unfinished"}
    write_run(places.results / "by-hand", experiment_of(LRD), value=0.93)
    assert states(read_plan([LRD], [0], places)) == {(LRD, 0): "there"}


def test_a_lower_cap_that_was_not_reached_is_the_run_all_the_same(places):
    """Validation ended it, as it would have ended the preset's; one at its cap was cut short."""
    name, capped = "char-lm/gru-1000", {"updates": 7000}
    folder = write_run(places.results / "a", experiment_of(name, **capped), value=2.9)
    assert states(read_plan([name], [0], places)) == {(name, 0): "missing"}
    result = json.loads((folder / "result.json").read_text()) | {"updates": 5000}
    (folder / "result.json").write_text(json.dumps(result))
    assert states(read_plan([name], [0], places)) == {(name, 0): "there"}


@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_are_no_result_and_are_in_the_way(places, finished):
    changed = experiment_of(LRD, batch_size=40)
    elsewhere = write_run(places.results / "tuned", changed, value=0.99)
    assert states(read_plan([LRD], [0], places)) == {(LRD, 0): "missing"}
    place = places.runs / LRD / "seed-0"
    write_run(place, changed, value=0.99, finished=finished)
    (step,) = read_plan([LRD], [0], places)
    assert step.state == "blocked" and step.note == f"{place} holds a run with batch_size=40"
    # A result that is there needs no run, so what lies in the folder of runs does not matter.
    write_run(places.results / LRD / "seed-0", experiment_of(LRD), value=0.93)
    assert states(read_plan([LRD], [0], places)) == {(LRD, 0): "there"}
    assert elsewhere.exists()


def test_a_damaged_run_is_one_sentence(places):
    folder = write_run(places.runs / LRD / "seed-0", experiment_of(LRD), value=0.93)
    (folder / "experiment.json").write_text("{")
    with pytest.raises(ReportError, match=r"experiment\.json is damaged"):
        read_plan([LRD], [0], places)
