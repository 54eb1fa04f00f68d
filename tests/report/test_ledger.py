"""The ledger of contradictions and the notes of presets: what they say of our runs is in files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from passnet.config import ConfigurationError, apply_overrides
from passnet.experiments import DISCREPANCIES, get, names
from passnet.report.groups import group_runs
from passnet.report.numbers import score
from passnet.report.read import find_runs

RESULTS = Path(__file__).parents[2] / "results"
LEDGER = {entry.claim: f"{entry.found}; {entry.here}" for entry in DISCREPANCIES}
TEXTS = [
    *LEDGER.values(),
    *(note for name in names() for note in get(name).notes),
    (RESULTS / "NOTES.md").read_text(),
]
SETTING = re.compile(r"\b[a-z_.0-9]+=[\w.-]+(?:\(\d+\))?")


def test_settings_that_are_named_can_be_set():
    named = sorted({found for text in TEXTS for found in SETTING.findall(text)})
    assert len(named) > 10
    for setting in named:
        assert any(takes(name, setting) for name in names()), setting


def takes(name: str, setting: str) -> bool:
    """Whether a preset can have that setting, by itself or for the text with another alphabet."""
    for more in ((), ("task.vocabulary=51",)):
        try:
            apply_overrides(get(name), (setting, *more))
        except ConfigurationError:
            continue
        return True
    return False


@pytest.fixture(scope="module")
def groups():
    return {group.label: group for group in group_runs(find_runs([RESULTS]))}


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("nothing is said of the order of the digits (perm", "psmnist/lrd-gru-256-24"),
        (
            "nothing is said of the order of the digits (perm",
            "psmnist/lrd-gru-256-24 task.order=fixed",
        ),
        ("mini-batches of 100", "highway-mnist/lr-1024-256"),
        ("mini-batches of 100", "highway-mnist/lr-1024-256 batch_size=20"),
        ("the LSTMs read 49", "char-lm/lstm-1000-dropout"),
        ("the LSTMs read 49", "char-lm/lstm-1000-dropout task.unk=spelled task.vocabulary=51"),
        ("the LSTMs read 49", "char-lm/lrd-lstm-1740-300-dropout"),
    ],
)
def test_scores_in_the_ledger_are_those_of_the_results(groups, claim, label):
    (words,) = (words for said, words in LEDGER.items() if said.startswith(claim))
    found = groups[label].summary()
    assert found is not None
    assert score(groups[label].metric, found.mean).removesuffix(" %") in words


def below(pattern: str) -> str:
    """Of runs in the results, how many are below 1e-3 nats on the test, out of how many."""
    files = sorted(RESULTS.glob(f"{pattern}/result.json"))
    values = [json.loads(file.read_text())["value"] for file in files]
    return f"{sum(value < 1e-3 for value in values)} of {len(values)}"


def test_how_many_runs_of_the_memory_tasks_succeed_is_counted_in_the_results():
    words = LEDGER["learning rate 1e-3 on the memory tasks"]
    trials = "lrd-gru-128-50-trials/learning-rate-0.0015-*"
    assert below(f"copy-variable-length/{trials}") == "4 of 7" and "four of seven runs" in words
    assert below("copy-variable-length/lrd-gru-128-50/*") == "0 of 5" and "none of five" in words
    assert below(f"copy-500/{trials}") == "3 of 3" and "three of three" in words
    assert below("copy-500/lrd-gru-128-50/*") == "1 of 3" and "one of three" in words
    lag = (below(f"copy-variable-lag/{trials}"), below("copy-variable-lag/lrd-gru-128-50/*"))
    assert lag == ("3 of 3", "3 of 3") and "with variable lag all at either rate" in words
