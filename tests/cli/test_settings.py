"""What `passnet show` prints of a preset can be typed, and is said exactly."""

from __future__ import annotations

import dataclasses

import pytest

from passnet.cli import main
from passnet.cli.settings import typed_settings
from passnet.config import Adam, ConfigurationError, LowRank, apply_overrides
from passnet.experiments import get

PRESETS = (
    "copy-500/lrd-gru-128-50",
    "copy-500/urnn-721",
    "psmnist/lrd-gru-256-24",
    "char-lm/lstm-1000-dropout",
    "char-lm/lrd-gru-1000-64",
    "highway-mnist/lr-1024-256",
    "quick/copy",
    "quick/character-stream",
    "quick/highway-digits",
)


@pytest.mark.parametrize("name", PRESETS)
def test_every_shown_setting_is_accepted_and_changes_nothing(name):
    preset = get(name)
    shown = typed_settings(preset)
    for key, value in shown.items():
        assert apply_overrides(preset, [f"{key}={value}"]) == preset
    assert apply_overrides(preset, [f"{key}={value}" for key, value in shown.items()]) == preset


def test_keys_that_do_not_apply_are_not_shown():
    gru, urnn = (typed_settings(get(name)) for name in ("quick/copy", "copy-500/urnn-721"))
    highway = typed_settings(get("quick/highway-digits"))
    assert {"model.reset", "model.zoneout", "model.matrix.rank"} <= set(gru)
    assert not {"model.activation", "model.batch_norm", "model.dropout_bottleneck"} & set(gru)
    assert {"model.activation", "model.batch_norm"} <= set(highway)
    assert not {"model.reset", "model.matrix", "model.zoneout"} & set(urnn)
    for key, value in (("activation", "tanh"), ("batch_norm", "true")):
        with pytest.raises(ConfigurationError, match="serves only highway"):
            apply_overrides(get("quick/copy"), [f"model.{key}={value}"])


def test_values_are_written_as_they_are_typed():
    preset = get("quick/copy")
    changed = dataclasses.replace(
        preset,
        model=dataclasses.replace(
            preset.model, matrix=LowRank(24, tied=True), max_row_norm=1.25e-7
        ),
        optimiser=Adam(0.0012345, betas=(0.5, 0.99)),
    )
    shown = typed_settings(changed)
    assert apply_overrides(preset, [f"{key}={value}" for key, value in shown.items()]) == changed
    assert shown["model.matrix"] == "LowRank(24, tied=true)"
    assert shown["model.max_row_norm"] == "1.25e-07"
    assert shown["model.carry_bias"] == "Chrono(30)"
    assert shown["optimiser"] == "Adam(0.0012345, betas=(0.5,0.99))"
    assert (shown["ema"], shown["model.weight_norm"], shown["clipping.limit"]) == (
        "none",
        "false",
        "1",
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("quick/copy", ["quick/copy (protocol: passnet's own)\n", "Chrono(30)\n"]),
        (
            "psmnist/lrd-gru-256-24",
            [
                "psmnist/lrd-gru-256-24 (protocol: the paper's)\n",
                "[the fraction of right answers]\n",
                "LowRankPlusDiagonal(24)\n",
            ],
        ),
    ],
)
def test_show_prints_them(name, parts, capsys):
    assert main(["show", name]) == 0
    said = capsys.readouterr().out
    assert [part for part in parts if part not in said] == []
