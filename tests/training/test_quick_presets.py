"""Every task's quick preset learns what a model without memory cannot."""

from __future__ import annotations

import pytest

from passnet.config import METRICS
from passnet.experiments import get, names
from passnet.training import evaluate, load_run, train

# Between the chance level and what each preset reaches, nearer to the latter.
REACHED = {
    "quick/copy": 0.15,
    "quick/addition": 0.005,
    "quick/sequential-digits": 0.8,
    "quick/highway-digits": 0.97,
    "quick/character-stream": 2.2,
    "quick/character-sentences": 5.2,
}


def test_every_quick_preset_is_here():
    assert set(REACHED) == {name for name in names() if name.startswith("quick/")}


@pytest.mark.parametrize("name", REACHED)
def test_learns(name, tmp_path):
    result = train(get(name), tmp_path, device="cpu", data_dir=tmp_path / "nothing")
    sign = 1 if METRICS[result.metric].better == "max" else -1
    chance = result.chance[result.metric]
    assert sign * result.value > sign * REACHED[name] > sign * chance
    again = evaluate(tmp_path, device="cpu")
    assert again == result.test
    assert load_run(tmp_path).result == result
