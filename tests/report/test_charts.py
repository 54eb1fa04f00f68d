"""What a chart of curves shows of them, and what it leaves out."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("altair")

from made_up_runs import experiment_of, write_run

from passnet.config import experiment_parameter_counts
from passnet.experiments import get
from passnet.report.budget import characters_budget, digits_budget
from passnet.report.charts import curves_chart, cuts_off
from passnet.report.curves import AUTHOR, Curve, author_curves
from passnet.report.figures import character_figures, figure_two, highway_figures
from passnet.report.groups import group_runs
from passnet.report.read import find_runs
from passnet.report.spots import CONVERTED, FURTHER, OURS, PAPER


def vertical(metric: str, values: list[float]) -> tuple[float, float]:
    curve = Curve("made up", "made up, seed 0", tuple(enumerate(map(float, values))))
    layers = curves_chart([curve], metric)["layer"]
    return tuple(layers[0]["encoding"]["y"]["scale"]["domain"])


def test_a_spike_does_not_press_the_curve_flat():
    falling = [3.0 - 0.001 * k for k in range(200)]
    low, high = vertical("perplexity_macro", falling)
    assert low < 2.81 and 2.98 < high < 3.01
    spiked = [*falling[:100], 10.0, *falling[100:]]
    assert vertical("perplexity_macro", spiked)[1] < 3.01
    rising = [0.8 + 0.0005 * k for k in range(200)]
    dipped = [*rising[:150], 0.1, *rising[150:]]
    low, high = vertical("accuracy", dipped)
    assert 79 < low < 81 and high > 89.9


def test_two_spikes_of_a_short_curve_do_not_either():
    falling = [3.5 - 0.01 * k for k in range(60)]
    falling[20], falling[40] = 5.0, 10.0
    assert vertical("perplexity_macro", falling)[1] < 3.6


def test_the_best_points_are_always_there():
    level = [3.0] * 200
    assert vertical("perplexity_macro", [*level[:150], 2.0, *level[150:]])[0] < 2.0
    assert vertical("accuracy", [*[0.5] * 150, 0.9, *[0.5] * 50])[1] > 90


def test_one_bad_start_does_not_make_an_axis_logarithmic():
    curve = Curve(
        "made up", "made up, seed 0", tuple(enumerate([4.0 - 0.05 * k for k in range(50)]))
    )
    before = [(float(k), y) for k, y in enumerate([89.0, *(4.0 - 0.05 * k for k in range(50))])]
    scale = curves_chart([curve], "error_percent", author=before)["layer"][0]["encoding"]["y"]
    assert "type" not in scale["scale"] and scale["scale"]["domain"][1] < 5
    falling = Curve("made up", "made up, seed 0", tuple((k, 10.0 ** (-k / 20)) for k in range(80)))
    scale = curves_chart([falling], "cross_entropy_nats")["layer"][0]["encoding"]["y"]["scale"]
    assert scale["type"] == "log"


def test_small_numbers_on_a_logarithmic_axis_have_exponents_and_the_bound_is_dotted():
    falling = Curve("made up", "made up, seed 0", tuple((k, 10.0 ** (-k / 10)) for k in range(80)))
    lines, _, rule = curves_chart([falling], "cross_entropy_nats", mark=1e-3)["layer"]
    axis = lines["encoding"]["y"]["axis"]
    assert axis["labelExpr"] == "format(datum.value, datum.value < 1e-3 ? '~e' : '~g')"
    assert rule["data"]["values"] == [{"score": 1e-3}] and rule["mark"]["strokeDash"]
    (shown,) = [panel for panel in figure_two([]) if panel.anchor == "f2-length"]
    assert "dotted: the paper's bound, 1e-3" in shown.caption


def test_language_models_have_a_panel_for_each_kind(tmp_path):
    presets = {
        "char-lm/gru-1000": "characters-dense",
        "char-lm/lrd-lstm-1740-300-dropout": "characters-lstm",
        "char-lm/lrd-gru-1000-64": "characters-untied",
        "char-lm/lrd-gru-1000-64-tied": "characters-tied",
    }
    for name in presets:
        write_run(tmp_path / name, experiment_of(name), value=2.9, start=9.0)
    shown, last = {}, {}
    for figure in character_figures(group_runs(find_runs([tmp_path]))):
        for row in figure.spec["data"]["values"]:
            shown.setdefault(row["model"], set()).add(figure.anchor)
            last[row["model"]] = row["score"]
    assert shown == {name: {anchor} for name, anchor in presets.items()}
    macro = 2.9 + (9.0 - 2.9) * math.exp(-5)
    judged = {name: 0.99 * macro if "lstm" in name else macro for name in presets}
    assert last == pytest.approx(judged, rel=1e-4), "macro, but micro for LSTMs"


def test_the_papers_points_are_hollow_in_the_legend_too(tmp_path):
    write_run(tmp_path / "a", experiment_of("psmnist/gru-128"), value=0.93)
    (points,) = [
        layer["encoding"]
        for layer in digits_budget(group_runs(find_runs([tmp_path]))).spec["layer"]
        if "shape" in layer["encoding"]
    ]
    fill, stroke = (points[look]["scale"] for look in ("fill", "stroke"))
    ours, papers = (fill["domain"].index(source) for source in (OURS, PAPER))
    assert fill["range"][papers] == "transparent" != stroke["range"][papers]
    assert fill["range"][ours] == stroke["range"][ours]
    assert "color" not in points and fill["domain"] == points["shape"]["scale"]["domain"]


def test_the_authors_highway_curves_are_drawn_by_our_count_of_epochs():
    for shown in highway_figures([]):
        kind = shown.anchor.removeprefix("highway-")
        published = author_curves()[f"highway_mnist_{kind}_1024_256"].points
        rows = [row for row in shown.spec["data"]["values"] if row["model"] == AUTHOR]
        assert published[0][0] == 1 and published[0][1] > 80, "before training"
        assert [(row["epoch"], row["score"]) for row in rows] == [(x - 1, y) for x, y in published]
        assert "one epoch earlier than in his log" in shown.caption


def test_what_is_cut_off_is_said(tmp_path):
    spiked = Curve(
        "made up",
        "made up, seed 0",
        tuple((k, 9.0 if k == 50 else 3.0 - k / 1e3) for k in range(100)),
    )
    assert cuts_off(curves_chart([spiked], "perplexity_macro"))
    level = Curve("made up", "made up, seed 0", tuple((k, 3.0) for k in range(100)))
    assert not cuts_off(curves_chart([level], "perplexity_macro"))
    write_run(tmp_path / "a", experiment_of("char-lm/gru-1000"), value=2.9, start=50.0)
    captions = {f.anchor: f.caption for f in character_figures(group_runs(find_runs([tmp_path])))}
    assert "single spikes, are cut off" in captions["characters-dense"]
    assert "cut off" not in captions["characters-lstm"]


def test_a_series_of_few_runs_is_drawn_over_those_of_many():
    def curve(series, seed):
        return Curve(series, f"{series}, seed {seed}", ((0, 1.0), (1, 2.0)))

    spec = curves_chart([curve("one", 0), curve("many", 0), curve("many", 1)], "accuracy")
    order = list(dict.fromkeys(row["model"] for row in spec["data"]["values"]))
    assert order == ["many", "one"]
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["one", "many"]


def test_a_model_has_one_colour_in_all_panels_of_figure_two(tmp_path):
    presets = (
        "copy-500/gru-128",
        "copy-500/lrd-gru-128-50",
        "copy-variable-lag/lrd-gru-128-50",
        "addition-750/lr-gru-128-24",
        "psmnist/lr-gru-128-24",
        "psmnist/gru-128",
        "psmnist/lrd-gru-128-24",
    )
    for name in presets:
        write_run(tmp_path / name, experiment_of(name), value=0.9, start=0.5)
    tints: dict[str, set[str]] = {}
    for shown in figure_two(group_runs(find_runs([tmp_path]))):
        if shown.spec:
            scale = shown.spec["layer"][0]["encoding"]["color"]["scale"]
            for series, tint in zip(scale["domain"], scale["range"], strict=True):
                tints.setdefault(series.rpartition("/")[2], set()).add(tint)
    assert all(len(found) == 1 for found in tints.values())
    assert len({tint for found in tints.values() for tint in found}) == len(tints) == 5


def test_the_addition_panel_says_which_error_it_draws():
    (panel,) = [shown for shown in figure_two([]) if shown.anchor == "f2-addition"]
    assert "both marks anywhere" in panel.caption
    assert "one mark in each half" in panel.caption


def test_a_model_stands_at_one_count_of_parameters_the_papers_and_ours(tmp_path):
    names = ("char-lm/lrd-gru-1000-64", "char-lm/lstm-1000-dropout")
    for name in names:
        run = experiment_of(name)
        write_run(tmp_path / name, run, value=2.0)
    rows = characters_budget(group_runs(find_runs([tmp_path]))).spec["data"]["values"]
    for name, model in zip(names, ("LRD GRU 1000/64", "LSTM 1000 dropout"), strict=True):
        found = {row["s"]: row["p"] for row in rows if row["m"] == model}
        assert len(found) == 2
        assert set(found.values()) == {experiment_parameter_counts(get(name)).model}


def test_bits_are_averaged_as_the_papers_number_of_the_row_is(tmp_path):
    for name in ("char-lm/lrd-gru-1000-64", "char-lm/lstm-1000-dropout", "beyond/ptb-2.6M"):
        write_run(tmp_path / name, experiment_of(name), value=2.0)
    shown = characters_budget(group_runs(find_runs([tmp_path])))
    rows = [row for row in shown.spec["data"]["values"] if row["s"].startswith("passnet")]
    micro = pytest.approx(0.9855, abs=1e-4)
    assert {row["s"]: row["y"] for row in rows} == {
        f"{OURS}, macro": 1.0,
        f"{OURS}, micro": micro,
        FURTHER: micro,
    }
    assert {row["s"] for row in shown.spec["data"]["values"]} >= {f"{PAPER}, macro"}
    assert "micro is lower by 0.01" in shown.caption


def test_scores_of_other_tokens_are_converted_and_hollow():
    spec = characters_budget([]).spec
    found = {row["m"]: row for row in spec["data"]["values"] if row["s"] == CONVERTED}
    values = {name: row["y"] for name, row in found.items()}
    assert values == {"LSTM (Bai)": 1.43, "GRU (Bai)": 1.44, "TCN": 1.38}
    assert found["TCN"]["note"] == "1.31 in its own tokens, converted"
    (fill,) = [
        layer["encoding"]["fill"]["scale"]
        for layer in spec["layer"]
        if "shape" in layer["encoding"]
    ]
    assert fill["range"][fill["domain"].index(CONVERTED)] == "transparent"
