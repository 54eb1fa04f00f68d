"""Names, listings and the promise that neither needs torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from passnet.config import ConfigurationError
from passnet.experiments import UnknownPreset, get, listing, names

COLUMNS = {
    "name",
    "task",
    "cell",
    "matrix",
    "paper_value",
    "metric",
    "table",
    "parameters_paper",
    "parameters",
}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("psmnist/lrd-gru-128-25", "perhaps you meant 'psmnist/lrd-gru-128-24'"),
        ("copy500/lrd-gru-128-50", "perhaps you meant 'copy-500/lrd-gru-128-50'"),
        ("Quick/Copy", "perhaps you meant 'quick/copy'"),
        ("lrd-gru-6985-64-tied", "perhaps you meant 'char-lm/lrd-gru-6985-64-tied-dropout'"),
        ("psmnist", "it is a group, choose one of psmnist/gru-128"),
        ("xyzzy", "`passnet list` shows them all"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, message):
    with pytest.raises(UnknownPreset) as caught:
        get(name)
    assert message in str(caught.value)
    assert repr(name) in str(caught.value)


def test_names_are_those_of_the_values():
    assert len(set(names())) == len(names())
    for name in names():
        assert get(name).name == name


def test_listing_has_a_json_row_for_every_preset():
    rows = json.loads(json.dumps(listing(), allow_nan=False))
    assert [row["name"] for row in rows] == list(names())
    for row in rows:
        assert set(row) >= COLUMNS
    row = next(row for row in rows if row["name"] == "psmnist/lrd-gru-128-24")
    assert row["task"] == "sequential_mnist"
    assert row["matrix"] == "low-rank plus diagonal 24"
    assert (row["paper_value"], row["metric"], row["table"]) == (0.935, "accuracy", "table 1")
    assert (row["parameters_paper"], row["parameters"]) == (20_618, 21_002)


def test_the_configuration_error_is_a_value_error():
    assert issubclass(ConfigurationError, ValueError)


def test_neither_room_imports_torch_or_numpy():
    program = (
        "import sys, passnet.config, passnet.experiments as e; e.listing();"
        "print([m for m in ('torch', 'numpy', 'safetensors') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
