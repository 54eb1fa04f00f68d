"""What a chart of curves shows of them, and what it leaves out."""

from __future__ import annotations

import pytest

pytest.importorskip("altair")

from made_up_runs import experiment_of, write_run

from passnet.report.budget import digits_budget
from passnet.report.charts import Mark, curves_chart
from passnet.report.curves import AUTHOR, Curve, author_curves
from passnet.report.figures import character_figures, highway_figures
from passnet.report.groups import group_runs
from passnet.report.read import find_runs
from passnet.report.spots import OURS, PAPER


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


def test_small_numbers_on_a_logarithmic_axis_have_exponents_and_the_bound_is_at_its_end():
    falling = Curve("made up", "made up, seed 0", tuple((k, 10.0 ** (-k / 10)) for k in range(80)))
    mark = Mark(1e-3, "a bound")
    lines, _, rule, *words = curves_chart([falling], "cross_entropy_nats", mark=mark)["layer"]
    axis = lines["encoding"]["y"]["axis"]
    assert axis["labelExpr"] == "format(datum.value, datum.value < 1e-3 ? '~e' : '~g')"
    assert rule["data"]["values"] == [{"v": 1e-3, "t": "a bound"}]
    assert [layer["mark"]["align"] for layer in words] == ["right", "right"]
    assert [layer["mark"].get("stroke") for layer in words] == ["var(--ground)", None]


def test_language_models_have_a_panel_for_each_kind(tmp_path):
    presets = {
        "char-lm/gru-1000": "characters-baselines",
        "char-lm/lrd-lstm-1740-300-dropout": "characters-baselines",
        "char-lm/lrd-gru-1000-64": "characters-untied",
        "char-lm/lrd-gru-1000-64-tied": "characters-tied",
    }
    for name in presets:
        write_run(tmp_path / name, experiment_of(name), value=2.9, start=9.0)
    shown = {}
    for figure in character_figures(group_runs(find_runs([tmp_path]))):
        for row in figure.spec["data"]["values"]:
            shown.setdefault(row["model"], set()).add(figure.anchor)
    assert shown == {name: {anchor} for name, anchor in presets.items()}


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
        assert "one epoch earlier here than in his log" in shown.caption
