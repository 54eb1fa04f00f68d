"""The report for a terminal."""

from __future__ import annotations

import json
import re

import pytest
from made_up_runs import experiment_of, write_run

from passnet.report import ReportError, text_report
from passnet.report.columns import columns, wrapped
from passnet.report.curves import Curve, author_curves, thinned
from passnet.report.numbers import count, duration, score, significant
from passnet.report.plot import LETTERS, text_plot
from passnet.report.targets import find_target


def row_of(report: str, start: str) -> str:
    (row,) = [line for line in report.splitlines() if line.startswith(f"{start}  ")]
    return row


def words_of(row: str) -> list[str]:
    return re.split(r"\s{2,}", row)


def test_a_table_for_each_task_with_the_verdict_in_its_rows(results):
    report = text_report([results])
    head = "accuracy (the fraction of right answers; higher is better), by chance 11.35 %"
    place = "all runs on cuda:0 (made-up GPU), made-up"
    assert f"Table 1. Sequential permuted MNIST\n{head}\n{place}\npreset " in report
    assert words_of(row_of(report, "psmnist/lrd-gru-128-24")) == [
        "psmnist/lrd-gru-128-24", "93.5 %", "93.80 ± 0.72 %", "matches", "+0.30 points", "0-2",
        "325\u202f500", "10 min", "21.0k",
    ]  # fmt: skip
    row = words_of(row_of(report, "copy-variable-length/lrd-gru-128-50"))
    assert row[1:2] + row[3:6] == ["< 0.001", "partly reached", "by 2 of 3 seeds", "0-2 (1 failed)"]
    assert "beside the paper:" not in report


def test_rows_that_were_not_run_are_rows_of_a_table_that_has_runs(results, tmp_path):
    report = text_report([results])
    for name in find_target("table1").presets:
        row = row_of(report, name)
        assert ("not run" in row) == (name != "psmnist/lrd-gru-128-24")
    assert words_of(row_of(report, "char-lm/gru-3298-dropout"))[1:] == ["macro", "2.77", "not run"]
    assert row_of(report, "char-lm/gru-1000").split()[3] == "unfinished"
    assert "char-lm/gru-1000/seed-0: unfinished at update 500\u202f000 of 1\u202f000" in report
    write_run(tmp_path / "a", experiment_of("quick/copy"), value=0.01)
    report = text_report([tmp_path])
    assert "not run" not in report and "paper has" not in report and "verdict:" not in report
    assert report.startswith(
        "quick\ncross-entropy in nats (mean over all answers; lower is better)"
    )
    assert report.endswith("1 run: 1 with a result, which took 10 min.")


def test_it_ends_in_counts(results):
    _, _, report = text_report([results]).rpartition("\n\n")
    for part in (
        "passnet: the mean test score",
        "verdict: that mean",
        "12 runs: 11 with a result, which took 1.8 h, 1 without a result yet.",
        "15 in its text and figures. 5 ran to the end. The paper prints a number for each of",
        "1 was not finished: char-lm/gru-1000. 28 were not run.",
        "1 set of changed settings is left out: --trials shows them too.",
    ):
        assert part in report


def test_metrics_of_a_table_are_told_apart(results):
    rows = text_report([results]).splitlines()
    assert "preset                                 metric  paper  passnet     verdict" in " ".join(
        row for row in rows if row.startswith("preset") and "metric" in row
    )
    assert row_of("\n".join(rows), "char-lm/lstm-1000-dropout").split()[1:] == [
        "micro",
        "2.92",
        "not",
        "run",
    ]
    beyond = row_of("\n".join(rows), "beyond/copy-500")
    assert "  cross-entropy in nats  < 0.001  not run" in beyond


def test_what_solves_a_memory_task_without_a_number_in_the_paper(tmp_path):
    for seed, value in enumerate((1e-4, 0.1)):
        run = experiment_of("copy-500/urnn-721", seed=seed)
        write_run(tmp_path / str(seed), run, value=value)
    row = words_of(row_of(text_report([tmp_path]), "copy-500/urnn-721"))
    assert row[1] == "\u2013" and row[3:5] == ["partly solved", "by 1 of 2 seeds"]


def test_an_aim_is_said_below_the_table(results):
    report = text_report([results])
    assert "beyond/psmnist-42k: aim ≥ 96.7 % reached" in report


@pytest.mark.parametrize("width", [64, 80, 120, 200])
@pytest.mark.parametrize("trials", [False, True])
def test_lines_fit_a_terminal(results, width, trials):
    report = text_report([results], width=width, trials=trials)
    # In the narrowest a row is one line, though a few letters longer.
    assert max(map(len, report.splitlines())) <= max(width, 73)
    assert words_of(row_of(report, "psmnist/gru-128"))[1:] == ["92.8 %", "not run"]
    assert ("10 min" in row_of(report, "psmnist/lrd-gru-128-24")) == (width > 80)
    assert ("\n  batch_size=40    " in report) == trials


def test_trials_are_left_out_where_their_preset_was_run_unless_asked_for(results, tmp_path):
    report = text_report([results])
    assert "batch_size=40" not in report
    report = text_report([results], trials=True)
    assert row_of(report, "psmnist/lrd-gru-128-24 batch_size=40")
    assert "--trials" not in report
    assert "b psmnist/lrd-gru-128-24 batch_size=40" in report
    write_run(tmp_path / "a", experiment_of("quick/copy", batch_size=7), value=0.01)
    assert row_of(text_report([tmp_path]), "quick/copy batch_size=7")


def test_seeds_and_places_in_short(tmp_path):
    name = "psmnist/gru-128"
    for seed in (0, 1, 2, 5, 7, 8):
        device = "cpu (1 threads)" if seed % 2 else "cpu (1 thread)"
        run = experiment_of(name, seed=seed)
        write_run(tmp_path / str(seed), run, value=0.93, device=device)
    assert "  0-2 5 7-8  " in row_of(text_report([tmp_path]), name)
    assert "all runs on cpu (1 thread), made-up\n" in text_report([tmp_path])
    other = experiment_of("psmnist/lr-gru-128-24")
    write_run(tmp_path / "other", other, value=0.93, device="cpu (2 threads)")
    report = text_report([tmp_path])
    assert "all runs on" not in report
    assert row_of(report, name).endswith("  cpu (1 thread), made-up")
    assert row_of(report, other.name).endswith("  cpu (2 threads), made-up")


def test_what_all_rows_of_a_table_share_is_said_once(tmp_path):
    for name in ("psmnist/gru-128", "psmnist/lr-gru-128-24"):
        run = experiment_of(name, evaluate_every=3000, protocol="ours")
        write_run(tmp_path / name, run, value=0.93)
    report = text_report([tmp_path])
    said = "validated every 3000 updates, not 300; otherwise the paper's protocol"
    assert f"\nEvery row that was run: {said}.\n" in report
    assert report.count("validated every") == 1


def test_trials_are_not_held_against_the_paper(tmp_path):
    changes = {"batch_size": 64, "updates": 1234, "accumulate": 2, "evaluate_every": 617}
    run = experiment_of("copy-500/lrd-gru-128-50", **changes)
    write_run(tmp_path / "trials" / "larger", run, value=0.5)
    row = words_of(row_of(text_report([tmp_path]), f"{run.name} in trials/larger"))
    assert row[1:6] == ["\u2013", "0.500", "\u2013", "\u2013", "0"]


def test_a_seed_that_diverged(tmp_path):
    run = experiment_of("psmnist/gru-128")
    write_run(tmp_path / "a", run, value=0.93, start=0.1)
    write_run(tmp_path / "b", experiment_of(run.name, seed=1), value=0.9, diverged=200_000)
    report = text_report([tmp_path])
    assert "  0-1 (1 diverged)  " in row_of(report, run.name)
    assert "b: failed, diverged at update 200\u202f000" in report
    assert "unfinished" not in report and "a: failed" not in report
    (record,) = json.loads(text_report([tmp_path], json=True))
    assert (record["seeds_finished"], record["seeds_failed"]) == (2, 1)
    broken = record["runs"][1]
    assert broken["finished"] and broken["value"] is None and broken["updates"] == 200_000
    assert broken["stopped"].startswith("diverged: ") and broken["curve"]["points"]
    alone = row_of(text_report([tmp_path / "b"]), run.name)
    assert words_of(alone)[1:4] == ["92.8 %", "diverged", "worse"]


def test_each_task_has_a_plot_of_its_own(results, tmp_path):
    report = text_report([results], trials=True)
    titles = [line for line in report.splitlines() if "on validation data" in line]
    assert len(titles) == 6 and len(set(titles)) == 6
    assert "Table 1. Sequential permuted MNIST: accuracy on validation data, %" in report
    assert "cross-entropy in nats on validation data, logarithmic" in report
    assert "a psmnist/lrd-gru-128-24, 3 seeds" in report
    assert "b psmnist/lrd-gru-128-24 batch_size=40" in report
    for name in ("beyond/psmnist-42k", "beyond/highway-mnist"):
        write_run(tmp_path / name, experiment_of(name), value=0.967, start=0.1)
    report = text_report([tmp_path])
    assert "accuracy of sequential MNIST on" in report and "accuracy of flat MNIST on" in report
    assert "a beyond/highway-mnist" in report


def test_json(results):
    records = {record["preset"]: record for record in json.loads(text_report([results], json=True))}
    copy = records["copy-variable-length/lrd-gru-128-50"]
    assert (copy["seeds_finished"], copy["seeds_failed"]) == (3, 1)
    assert copy["paper_value"] == 1e-3 and copy["chance"] == 0.04
    assert copy["runs"][0]["curve"]["points"][-1] == [30000, 4e-4]
    unfinished = records["char-lm/gru-1000"]
    assert unfinished["mean"] is None and unfinished["runs"][0]["finished"] is False


def test_without_runs_it_says_how_to_make_one(tmp_path):
    with pytest.raises(ReportError, match="no run was found"):
        text_report([tmp_path])


def test_a_run_without_curves_still_has_its_row(tmp_path):
    folder = write_run(tmp_path / "a", experiment_of("quick/copy"), value=0.01)
    (folder / "metrics.jsonl").unlink()
    assert "quick/copy" in text_report([tmp_path])


def test_a_single_evaluation_is_no_curve(tmp_path):
    write_run(tmp_path / "a", experiment_of("quick/copy"), value=0.01, points=1)
    assert "on validation data" not in text_report([tmp_path])
    write_run(tmp_path / "b", experiment_of("quick/copy", seed=1), value=0.01, points=2)
    assert "on validation data" in text_report([tmp_path])


def body_of(plot: str) -> list[str]:
    """What is drawn, with the letters at the right."""
    lines = [line for line in plot.splitlines() if line[9:10] in ("┤", "│")]
    return [line[10:] for line in lines]


def letters_of(plot: str) -> list[str]:
    return [line[70:].strip() for line in body_of(plot)]


def test_a_plot_falls_from_the_left_top_to_the_right_bottom():
    curve = Curve("falling", "falling", tuple((float(x), 10.0**-x) for x in range(5)))
    plot = text_plot([curve], "made up", width=84)
    lines, body = plot.splitlines(), [line[:70].rstrip() for line in body_of(plot)]
    assert lines[0] == "made up, logarithmic"
    assert body[0].strip() and len(body[0]) < 12
    assert len(body) == 16 and len(body[-1]) == 70
    firsts = [len(line) - len(line.lstrip()) for line in body]
    assert firsts == sorted(firsts)
    assert lines[1].split()[0] == "1.00" and lines[16].split()[0] == "1.00e-4"
    assert letters_of(plot) == [""] * 15 + ["a"]


def test_a_spike_does_not_flatten_the_others():
    low = [Curve(f"s{k}", "", tuple((float(x), 3 + k / 10) for x in range(60))) for k in range(4)]
    spiked = Curve("spiked", "", tuple((float(x), 10.1 if x == 30 else 3.5) for x in range(60)))
    plot = text_plot([*low, spiked], "made up")
    assert plot.splitlines()[0] == "made up; highest 10.1"
    numbers = [float(line.split()[0]) for line in plot.splitlines() if "┤" in line]
    assert max(numbers) < 3.8 and min(numbers) == 3.0
    fallen = Curve("fallen", "", tuple((float(x), 0.1 if x == 30 else 0.9) for x in range(60)))
    assert text_plot([fallen], "t", percent=True).splitlines()[0] == "t, %; lowest 10.0"


@pytest.mark.parametrize("count", [2, 5, 16, 30])
@pytest.mark.parametrize("rising", [True, False])
def test_letters_of_curves_that_end_together_stand_apart(count, rising):
    up, down = ((0.0, 1.0), (1.0, 2.0)), ((0.0, 2.0), (1.0, 1.0))
    curves = [Curve(f"s{k}", "", up if rising else down) for k in range(count - 1)]
    curves += [Curve("last", "", down if rising else up)]
    plot = text_plot(curves, "made up", width=84)
    found = letters_of(plot)
    own, last = LETTERS[: count - 1], LETTERS[count - 1]
    assert "".join(found) == (own + last if rising else last + own)
    assert max(map(len, found)) == (1 if count <= 16 else 2)
    assert found[0] and found[-1]
    assert f"  {LETTERS[count - 1]} last" in plot


def test_a_perfect_score_has_no_place_on_a_logarithmic_axis():
    curve = Curve("solved", "solved", ((1.0, 1.0), (2.0, 1e-4), (3.0, 0.0)))
    lines = text_plot([curve, Curve("zero", "zero", ((1.0, 0.0),))], "made up").splitlines()
    assert lines[0].endswith("logarithmic")
    assert lines[-2].split()[-2:] == ["2", "updates"] and lines[-1] == "  a solved"


@pytest.mark.parametrize("points", [((3.0, 0.5),), ((1.0, 2.0), (2.0, 2.0)), ((0.0, 0.0),)])
def test_flat_and_single_points_can_be_plotted(points):
    assert "a flat" in text_plot([Curve("flat", "flat", points)], "made up")


def test_columns_fit_by_what_can_be_spared():
    header, rows = ("name", "a", "b", "c"), [("x" * 50, "1", "22", ""), ("y", "333", "4", "")]
    whole = columns(header, rows, spare=("b", "a"))
    assert whole.splitlines()[0].split() == ["name", "a", "b"]
    assert whole.splitlines()[1] == f"{'x' * 50}  1    22"
    fitting = columns(header, rows, width=26, spare=("b", "a"))
    assert fitting.splitlines() == [
        "name           a    b",
        f"{'x' * 12}…  1    22",
        "y              333  4",
    ]
    assert columns(header, rows, width=12, spare=("b", "a")).splitlines()[1] == "xxxxx…  1"
    assert columns(header, [], width=80) == "name"
    assert wrapped("one two three", 8) == "one two\n  three" and wrapped("a  b", None) == "a  b"


def test_thinning_keeps_ends_and_extremes():
    points = [(float(x), 1.0) for x in range(1000)]
    points[500], points[700] = (500.0, 9.0), (700.0, -9.0)
    kept = thinned(points, 100)
    assert len(kept) <= 100
    assert kept[0] == points[0] and kept[-1] == points[-1]
    assert points[500] in kept and points[700] in kept
    assert kept == sorted(kept)


def test_the_authors_curves_end_as_he_committed_them():
    curves = author_curves()
    assert curves["addition_750_lr_gru_128_24"].points[-1] == (14500, 0.00272652)
    first = next(x for x, y in curves["copy_variable_length_lrd_gru_128_50"].points if y < 1e-3)
    assert first == 25500
    assert max(y for _, y in curves["psmnist_lr_gru_128_24"].points) == 0.9344


def test_numbers_as_people_write_them():
    assert score("accuracy", 0.93456) == "93.46 %"
    assert score("accuracy", None) == "\u2013"
    assert significant(8.6e-4) == "8.60e-4" and significant(0.00273) == "0.00273"
    assert count(20618) == "20.6k" and count(2_542_591) == "2.54M" and count(33_313_149) == "33.3M"
    assert duration(42) == "42 s" and duration(600) == "10 min" and duration(7200) == "2.0 h"


def test_marks_on_the_axis_differ():
    points = ((1.0, 2.2381), (2.0, 2.2345))
    marks = [
        line.split()[0]
        for line in text_plot([Curve("near", "near", points)], "t").split("\n")
        if "┤" in line
    ]
    assert marks[0] == "2.238" and len(set(marks)) == len(marks) == 4
