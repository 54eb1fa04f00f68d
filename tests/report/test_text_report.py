"""The report for a terminal."""

from __future__ import annotations

import json

import pytest
from made_up_runs import experiment_of, write_run

from passnet.report import ReportError, text_report
from passnet.report.curves import Curve, author_curves, thinned
from passnet.report.numbers import count, duration, score, significant
from passnet.report.plot import text_plot


def row_of(report: str, start: str) -> str:
    (row,) = [line for line in report.splitlines() if line.startswith(f"{start}  ")]
    return row


def test_the_table(results):
    report = text_report([results])
    row = row_of(report, "psmnist/lrd-gru-128-24")
    for part in ("  0-2  ", "93.80 ± 0.72 %", "93.5 %", "21002", "10 min"):
        assert part in row
    title = "psmnist, accuracy; by chance 11.35 %; on cuda:0 (made-up GPU), made-up"
    assert f"\n{title}\npreset " in report and "made-up" not in row
    row = row_of(report, "copy-variable-length/lrd-gru-128-50")
    assert "0-2, 1 failed" in row and "< 0.001 in 30\u202f000 updates" in row
    assert row_of(report, "char-lm/gru-1000").split()[1:4] == ["0,", "1", "unfinished"]
    assert all(len(line) <= 140 for line in report.splitlines())


def test_trials_are_left_out_where_their_preset_was_run_unless_asked_for(results, tmp_path):
    report = text_report([results])
    assert "batch_size=40" not in report
    assert "1 trial of a preset with changed settings is left out: --trials shows" in report
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
    assert "on cpu (1 thread), made-up\n" in text_report([tmp_path])
    other = experiment_of("psmnist/lr-gru-128-24")
    write_run(tmp_path / "other", other, value=0.93, device="cpu (2 threads)")
    report = text_report([tmp_path])
    assert "\npsmnist" in f"\n{report}" and "; on cpu" not in report
    assert row_of(report, name).endswith("  cpu (1 thread), made-up")
    assert row_of(report, other.name).endswith("  cpu (2 threads), made-up")


def test_what_all_rows_of_a_table_share_is_said_once(tmp_path):
    for name in ("psmnist/gru-128", "psmnist/lr-gru-128-24"):
        run = experiment_of(name, evaluate_every=3000, protocol="ours")
        write_run(tmp_path / name, run, value=0.93)
    report = text_report([tmp_path])
    said = "validated every 3000 updates, not 300; otherwise the paper's protocol"
    title = "Table 1. Sequential permuted MNIST"
    assert f"\n{title}. Every row that was run: {said}.\n" in report
    assert report.count("validated every") == 1


def test_remarks(results):
    report = text_report([results])
    assert "copy-variable-length/lrd-gru-128-50, beside the paper: partly reached" in report
    assert "char-lm/gru-1000/seed-0: unfinished at update 500000 of 1000000" in report


def test_trials_are_not_held_against_the_paper(tmp_path):
    changes = {"batch_size": 64, "updates": 1234, "accumulate": 2, "evaluate_every": 617}
    run = experiment_of("copy-500/lrd-gru-128-50", **changes)
    write_run(tmp_path / "trials" / "larger", run, value=0.5)
    report = text_report([tmp_path])
    assert "beside the paper" not in report and "failed" not in report
    row = row_of(report, f"{run.name} in trials/larger")
    assert "0.500" in row and "< 0.001" not in row


def test_a_seed_that_diverged(tmp_path):
    run = experiment_of("psmnist/gru-128")
    write_run(tmp_path / "a", run, value=0.93, start=0.1)
    write_run(tmp_path / "b", experiment_of(run.name, seed=1), value=0.9, diverged=200_000)
    report = text_report([tmp_path])
    assert "  0-1, 1 diverged  " in row_of(report, run.name)
    assert "b: failed, diverged at update 200\u202f000" in report
    assert "unfinished" not in report and "a: failed" not in report
    (record,) = json.loads(text_report([tmp_path], json=True))
    assert (record["seeds_finished"], record["seeds_failed"]) == (2, 1)
    broken = record["runs"][1]
    assert broken["finished"] and broken["value"] is None and broken["updates"] == 200_000
    assert broken["stopped"].startswith("diverged: ") and broken["curve"]["points"]


def test_curves_share_a_plot_by_task(results):
    report = text_report([results], trials=True)
    assert report.count("validation accuracy (fraction)") == 3
    assert "validation cross_entropy_nats (nats), logarithmic" in report
    assert "a psmnist/lrd-gru-128-24, 3 seeds" in report
    assert "b psmnist/lrd-gru-128-24 batch_size=40" in report


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


def test_a_plot_falls_from_the_left_top_to_the_right_bottom():
    curve = Curve("falling", "falling", tuple((float(x), 10.0**-x) for x in range(5)))
    lines = text_plot([curve], "made up").splitlines()
    assert lines[0] == "made up, logarithmic"
    body = [line.split("┤")[-1].split("│")[-1] for line in lines[1:15]]
    assert body[0].strip() and len(body[0].rstrip()) < 12
    assert body[-1].rstrip().endswith("a") and len(body[-1].rstrip()) == 64
    firsts = [len(line) - len(line.lstrip()) for line in body]
    assert firsts == sorted(firsts)
    assert lines[1].split()[0] == "1.00" and lines[14].split()[0] == "1.00e-4"


def test_a_perfect_score_has_no_place_on_a_logarithmic_axis():
    curve = Curve("solved", "solved", ((1.0, 1.0), (2.0, 1e-4), (3.0, 0.0)))
    lines = text_plot([curve, Curve("zero", "zero", ((1.0, 0.0),))], "made up").splitlines()
    assert lines[0].endswith("logarithmic")
    assert lines[-2].split()[-2:] == ["2", "updates"] and lines[-1] == "  a solved"


@pytest.mark.parametrize("points", [((3.0, 0.5),), ((1.0, 2.0), (2.0, 2.0)), ((0.0, 0.0),)])
def test_flat_and_single_points_can_be_plotted(points):
    assert "a flat" in text_plot([Curve("flat", "flat", points)], "made up")


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
    assert marks[0] == "2.2381" and len(set(marks)) == len(marks) == 5
