"""Seeds together: means, spreads, failures, and the comparison with the paper."""

from __future__ import annotations

import re
import statistics
from dataclasses import replace

import pytest
from made_up_runs import experiment_of, write_run

from passnet.config import Averaging, Cosine, LowRankPlusDiagonal
from passnet.report import groups, text_report, write_page
from passnet.report.describe import fates, seeds_text, standing, time_text, updates_text
from passnet.report.groups import first_below, group_runs
from passnet.report.lines import write_line
from passnet.report.paper import compare
from passnet.report.read import find_runs

LRD = "psmnist/lrd-gru-128-24"
COPY = "copy-500/lrd-gru-128-50"
ADDITION = "addition-750/lr-gru-128-24"


def groups_below(folder):
    return group_runs(find_runs([folder]))


def test_the_seeds_of_a_preset_are_one_group(tmp_path):
    values = [0.93, 0.94, 0.952]
    for seed, value in enumerate(values):
        write_run(tmp_path / str(seed), experiment_of(LRD, seed=seed), value=value)
    (group,) = groups_below(tmp_path)
    found = group.summary()
    assert group.is_preset and not group.failed
    assert found.mean == statistics.fmean(values)
    assert found.spread == statistics.stdev(values)
    assert (found.least, found.most, found.count) == (0.93, 0.952, 3)
    assert group.summary("accuracy", split="validation").mean == found.mean
    assert group.chance() == 0.1135


def test_one_seed_has_no_spread(tmp_path):
    write_run(tmp_path / "only", experiment_of(LRD), value=0.93)
    (group,) = groups_below(tmp_path)
    assert group.summary().spread is None


def test_changed_settings_do_not_stand_beside_the_papers_row(tmp_path):
    write_run(tmp_path / "a", experiment_of(LRD), value=0.93)
    write_run(tmp_path / "b", experiment_of(LRD, seed=1, batch_size=40), value=0.99)
    model = replace(experiment_of(LRD).model, matrix=LowRankPlusDiagonal(30))
    write_run(tmp_path / "c", experiment_of(LRD, model=model), value=0.99)
    write_run(tmp_path / "d", experiment_of("quick/copy", name="mine"), value=0.1)
    first, *others = groups_below(tmp_path)
    assert first.is_preset and first.summary().mean == 0.93
    assert not any(group.is_preset for group in others)
    labels = [group.label for group in others]
    assert labels == [f"{LRD} batch_size=40", f"{LRD} model.matrix.rank=30", "mine"]


def test_runs_that_were_validated_less_often_are_runs_of_the_preset(tmp_path):
    write_run(tmp_path / "a", experiment_of(LRD), value=0.93)
    write_run(tmp_path / "b", experiment_of(LRD, seed=1, evaluate_every=3000), value=0.95)
    (group,) = groups_below(tmp_path)
    assert group.is_preset and group.summary().count == 2
    said = "validated every 3000 updates, not 300; otherwise the paper's protocol"
    assert group.remarks == (said,)
    assert group.remarks[0] in write_line(LRD, group).verdict
    # More often, out of step, or where a look may end the training, it is another experiment.
    steered = "char-lm/lrd-gru-1000-64"
    for number, (name, every) in enumerate([(LRD, 100), (LRD, 1000), (steered, 10000)]):
        write_run(tmp_path / f"{number}", experiment_of(name, evaluate_every=every), value=0.9)
    assert sum(group.is_preset for group in groups_below(tmp_path)) == 1


def test_runs_that_were_cut_short_are_runs_of_the_preset(tmp_path):
    steered = "char-lm/lrd-gru-1000-64"
    write_run(tmp_path / "a", experiment_of(steered, updates=90_000), value=2.93)
    write_run(tmp_path / "b", experiment_of(steered, updates=60_000), value=2.99)
    (group,) = groups_below(tmp_path)
    assert group.is_preset and [run.place for run in group.runs] == ["a"]
    assert group.remarks == ("cut short at 90000 updates",)
    assert group.remarks[0] in write_line(steered, group).verdict
    # One that went on to its end counts instead, whatever came of it.
    write_run(tmp_path / "c", experiment_of(steered), value=2.95)
    (group,) = groups_below(tmp_path)
    assert [run.place for run in group.runs] == ["c"] and not group.remarks
    # Where the cap is the protocol's end, it is another experiment.
    write_run(tmp_path / "d", experiment_of(LRD, updates=90_000), value=0.9)
    assert sum(group.is_preset for group in groups_below(tmp_path)) == 1


@pytest.mark.parametrize("ahead", [{"schedule": Cosine()}, {"ema": Averaging(0.9)}], ids=str)
def test_training_that_looks_ahead_to_its_cap_is_another_with_a_lower_one(monkeypatch, ahead):
    preset = experiment_of("char-lm/lrd-gru-1000-64")
    shorter = replace(preset, updates=9000)
    assert groups.as_long(shorter) == preset
    preset, shorter = replace(preset, **ahead), replace(shorter, **ahead)
    monkeypatch.setattr(groups, "get", lambda name: preset)
    assert groups.as_long(shorter) == shorter


def test_a_run_that_had_no_more_time_is_said_to_be_cut_short(tmp_path):
    stopped = "time: 9 minutes have no room for another evaluation"
    write_run(tmp_path / "a", experiment_of(LRD), value=0.93, stopped=stopped)
    (group,) = groups_below(tmp_path)
    assert group.is_preset and group.remarks == ("cut short at 325500 updates",)


def test_a_repeated_seed_counts_once_and_the_finished_one_is_kept(tmp_path):
    write_run(tmp_path / "a", experiment_of(LRD), value=0.5, finished=False)
    write_run(tmp_path / "b", experiment_of(LRD), value=0.93)
    write_run(tmp_path / "c", experiment_of(LRD), value=0.94)
    (group,) = groups_below(tmp_path)
    assert [run.place for run in group.runs] == ["b"]
    assert {run.place for run in group.repeated} == {"a", "c"}
    assert group.summary().count == 1
    # Its score is said, in the line and on the page; an unfinished run has none.
    said = "a further run of seed 0, not counted: 94.00 %"
    assert said in write_line(LRD, group).verdict
    write_page([tmp_path], tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text()
    assert "c: seed 0 is there already, left out (94.00 %)" in text_report([tmp_path])


def test_a_run_that_had_too_little_time_counts_where_there_is_no_other(tmp_path):
    """Whatever the folders are called, and in whatever order they are named."""
    out = "time: 9 minutes have no room for another evaluation"
    write_run(tmp_path / "a", experiment_of(LRD), value=0.8, stopped=out)
    write_run(tmp_path / "b", experiment_of(LRD), value=0.93)
    for folders in (["a", "b"], ["b", "a"]):
        (group,) = group_runs(find_runs([tmp_path / name for name in folders]))
        assert [run.outcome.value for run in group.runs] == [0.93] and not group.remarks


def test_a_number_of_another_measure_is_not_compared(tmp_path):
    name = "beyond/ptb-2.6M"
    # As runs have it from before the preset said so.
    paper = replace(experiment_of(name).paper, relation="equals")
    write_run(tmp_path / "a", experiment_of(name, paper=paper), value=2.4)
    (group,) = groups_below(tmp_path)
    assert compare(group) is None
    line = write_line(name, group)
    assert line.paper == "2.76" and "the paper's number is of another measure" in line.verdict
    assert "better" not in line.verdict


def test_second_runs_of_several_seeds_are_named_together(tmp_path):
    weight_norm = "copy-500/lrd-gru-128-50-wn"
    for place, seed in (("a", 0), ("b", 0), ("c", 1), ("d", 1)):
        write_run(tmp_path / place, experiment_of(weight_norm, seed=seed), value=0.002)
    (group,) = groups_below(tmp_path)
    said = "further runs of seeds 0 and 1, not counted: 0.00200, 0.00200"
    # The paper has no number for this row, and it is said all the same.
    assert write_line(weight_norm, group).verdict == said
    write_page([tmp_path], tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text()


def test_seeds_that_solve_a_memory_task_are_counted_where_the_paper_has_no_number(tmp_path):
    weight_norm = "copy-500/lrd-gru-128-50-wn"
    for seed, value in enumerate([5e-4, 1e-3, None]):
        write_run(tmp_path / "a" / str(seed), experiment_of(weight_norm, seed=seed), value=value)
    write_run(tmp_path / "b", experiment_of(COPY), value=5e-4)
    without, with_number = groups_below(tmp_path)[::-1]
    assert compare(without) is None and compare(with_number) is not None
    assert (
        seeds_text(without) == "1 of 3 solved it" and seeds_text(with_number) == "1 of 1 solved it"
    )
    write_page([tmp_path], tmp_path / "page.html")
    assert '<td class="bad"><span>1 of 3 solved it<' in (tmp_path / "page.html").read_text()


def test_failed_seeds_are_counted(tmp_path):
    for seed, value in enumerate([5e-4, 1e-3, 0.02, None]):
        write_run(tmp_path / str(seed), experiment_of(COPY, seed=seed), value=value)
    write_run(tmp_path / "later", experiment_of(COPY, seed=9), value=1e-4, finished=False)
    (group,) = groups_below(tmp_path)
    assert [run.experiment.seed for run in group.failed] == [1, 2, 3]
    assert [run.experiment.seed for run in group.unfinished] == [9]
    assert group.summary().count == 3
    verdict = compare(group)
    assert (verdict.word, verdict.text) == ("partly reached", "by 1 of 4 seeds")
    assert not verdict.good


def test_how_seeds_failed_is_said_where_all_did_alike(tmp_path):
    write_run(tmp_path / "0", experiment_of(COPY), value=5e-4)
    write_run(tmp_path / "1", experiment_of(COPY, seed=1), value=0.02, diverged=70)
    assert fates(*groups_below(tmp_path)) == ["1 diverged"]
    write_run(tmp_path / "2", experiment_of(COPY, seed=2), value=0.02)
    assert fates(*groups_below(tmp_path)) == ["2 failed"]
    write_run(tmp_path / "3", experiment_of(COPY, seed=3), value=0.02, finished=False)
    (group,) = groups_below(tmp_path)
    assert fates(group) == ["2 failed", "1 unfinished"]
    assert seeds_text(group) == "1 of 3 solved it, 1 unfinished"


def test_a_diverged_seed_has_failed_and_is_not_unfinished(tmp_path):
    for seed, value in enumerate([0.930, 0.940]):
        write_run(tmp_path / str(seed), experiment_of(LRD, seed=seed), value=value, seconds=600)
    broken = experiment_of(LRD, seed=2)
    write_run(tmp_path / "2", broken, value=0.9, diverged=40_000, seconds=30)
    (group,) = groups_below(tmp_path)
    assert [run.experiment.seed for run in group.failed] == [2]
    assert not group.unfinished and len(group.finished) == 3
    assert group.summary().count == 2
    assert group.summary("accuracy", split="validation").count == 2
    verdict = compare(group)
    assert (verdict.word, verdict.good) == ("partly reached", False)
    assert verdict.text == "+0.00 points, 1 of 3 seeds failed"
    # What it took is said of the runs that got there.
    assert updates_text(group) == "325\u202f500" and time_text(group) == "10 min"
    assert seeds_text(group) == "2 of 3, 1 diverged"


def test_seeds_that_all_diverged(tmp_path):
    for seed, update in enumerate((70, 2000)):
        run = experiment_of(LRD, seed=seed)
        write_run(tmp_path / str(seed), run, value=0.9, diverged=update)
    (group,) = groups_below(tmp_path)
    said = "diverged at update 70; diverged at update 2\u202f000"
    assert group.summary() is None and standing(group) == said
    assert compare(group).word == "worse"
    assert updates_text(group) == "70\u20132\u202f000"


def test_a_seed_that_diverged_misses_a_bound(tmp_path):
    write_run(tmp_path / "0", experiment_of(COPY), value=1e-4)
    write_run(tmp_path / "1", experiment_of(COPY, seed=1), value=1e-4, diverged=900)
    (group,) = groups_below(tmp_path)
    verdict = compare(group)
    assert (verdict.word, verdict.text) == ("partly reached", "by 1 of 2 seeds")


def test_the_update_at_which_a_bound_is_met(tmp_path):
    write_run(tmp_path / "a", experiment_of(COPY), value=1e-4, start=1.0, points=100)
    (group,) = groups_below(tmp_path)
    update = first_below(group.runs[0], "cross_entropy_nats", 1e-3)
    before = [p for p in group.runs[0].evaluations if p.update < update]
    assert before and all(p.scores["cross_entropy_nats"] >= 1e-3 for p in before)
    assert first_below(group.runs[0], "cross_entropy_nats", 1e-9) is None


@pytest.mark.parametrize(
    ("name", "values", "word", "text"),
    [
        (LRD, [0.9353], "matches", "+0.03 points"),
        (LRD, [0.9330], "matches", "\u22120.20 points"),  # the standard error is 0.25
        (LRD, [0.9380], "better", "+0.30 points"),
        (LRD, [0.9320], "worse", "\u22120.30 points"),
        (LRD, [0.92, 0.94], "matches", "\u22120.50 points"),
        ("addition-750/lr-gru-128-24", [0.0034], "matches", "+4.0e-4"),
        ("addition-750/lr-gru-128-24", [5e-4, 0.027, 2e-4], "partly reached", "by 2 of 3 seeds"),
        ("addition-750/lr-gru-128-24", [0.5, 0.027, 0.2], "not reached", "by 0 of 3 seeds"),
        ("addition-750/lr-gru-128-24", [0.0010], "better", "\u22120.0020"),
        ("char-lm/gru-1000", [2.97], "worse", "+0.010"),
        ("char-lm/gru-1000", [2.9], "better", "\u22120.060"),
        (COPY, [1e-4, 2e-4], "reached", "by 2 of 2 seeds"),
        (COPY, [0.01], "not reached", "by 0 of 1 seed"),
        (LRD, [None], "worse", "not a number"),
    ],
)
def test_comparison_with_the_paper(tmp_path, name, values, word, text):
    for seed, value in enumerate(values):
        write_run(tmp_path / str(seed), experiment_of(name, seed=seed), value=value)
    (group,) = groups_below(tmp_path)
    verdict = compare(group)
    assert (verdict.word, verdict.text) == (word, text)
    assert verdict.good == (word in ("matches", "better", "reached"))


def test_nothing_is_compared_without_a_number_of_the_paper(tmp_path):
    write_run(tmp_path / "a", experiment_of("copy-500/urnn-721"), value=0.1)
    (group,) = groups_below(tmp_path)
    assert compare(group) is None and not group.failed


def test_scores_that_differ_by_factors_are_a_median_and_a_range(tmp_path):
    for seed, value in enumerate([2e-4, 5e-4, 0.027]):
        write_run(tmp_path / "a" / str(seed), experiment_of(ADDITION, seed=seed), value=value)
    write_run(tmp_path / "b", experiment_of(COPY), value=0.002)
    copy, addition = groups_below(tmp_path)
    assert write_line(ADDITION, addition).ours == "5.00e-4 (2.0e-4 to 0.027)"
    assert write_line(COPY, copy).ours == "0.00200"
    write_page([tmp_path], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<span>5.00e-4</span><br><small class="quiet">2.0e-4 to 0.027</small>' in page


def test_times_on_different_devices_stand_apart(tmp_path):
    write_run(tmp_path / "a", experiment_of(LRD), value=0.93, seconds=60, device="cpu (1 thread)")
    for seed, seconds in ((1, 600), (2, 1200)):
        write_run(tmp_path / str(seed), experiment_of(LRD, seed=seed), value=0.93, seconds=seconds)
    (group,) = groups_below(tmp_path)
    assert time_text(group) == "60 s on cpu, 15 min on cuda"


def test_the_highest_validation_of_a_run_is_not_that_of_the_tested_parameters(tmp_path):
    for seed, best in enumerate((0.95, 0.97)):
        folder = write_run(tmp_path / str(seed), experiment_of(LRD, seed=seed), value=0.93)
        with (folder / "metrics.jsonl").open("a") as metrics:
            metrics.write(f'{{"kind": "valid", "update": 1, "accuracy": {best}}}\n')
    (group,) = groups_below(tmp_path)
    assert (group.highest("accuracy").mean, group.highest("accuracy").most) == (0.96, 0.97)
    assert group.summary("accuracy", split="validation").mean == 0.93
    assert group.highest("perplexity_macro") is None
    write_page([tmp_path], tmp_path / "page.html")
    row = (tmp_path / "page.html").read_text().split(f'data-preset="{LRD}"')[1]
    cells = re.findall(r"<td[^>]*><span>([^<]+)</span>", row)
    assert cells[:5] == ["93.5 %", "94.1 %", "93.00 %", "93.00 %", "96.00 %"]


def test_the_protocol_is_told_by_the_settings_not_by_what_a_run_says(tmp_path):
    kept = experiment_of(LRD, evaluate_every=3000, protocol="ours")
    write_run(tmp_path / "a", kept, value=0.93)
    changed = experiment_of(LRD, batch_size=40)
    assert changed.protocol == "paper"
    write_run(tmp_path / "b", changed, value=0.93)
    own, trial = groups_below(tmp_path)
    assert (own.experiment.protocol, trial.experiment.protocol) == ("paper", "ours")
