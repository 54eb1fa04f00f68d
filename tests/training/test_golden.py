"""A short loss curve of every task, recorded once: a change of the numerics shows here first.

Run this file as a script to record the curves anew after a change that is meant.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import torch
from tiny_runs import TINY

from passnet.bench.accuracy import rms
from passnet.training import load_run, train

GOLDEN = Path(__file__).parent / "golden"


def curves(experiment, folder, **options) -> dict[str, list[float]]:
    train(experiment, folder, device="cpu", **options)
    lines = load_run(folder).metrics()
    return {
        "loss": [line["loss"] for line in lines if line["kind"] == "train"],
        "gradient_norm": [line["gradient_norm"] for line in lines if line["kind"] == "train"],
        "valid": [line[experiment.selection.metric] for line in lines if line["kind"] == "valid"],
        "test": [line[experiment.selection.metric] for line in lines if line["kind"] == "test"],
    }


def golden_file(experiment) -> Path:
    return GOLDEN / f"{experiment.name.partition('/')[2]}.json"


@pytest.mark.parametrize("experiment", TINY, ids=lambda experiment: experiment.name)
def test_curve(experiment, tmp_path):
    found = curves(experiment, tmp_path)
    expected = json.loads(golden_file(experiment).read_text())
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        got, wanted = torch.tensor(found[name]), torch.tensor(values)
        assert got.shape == wanted.shape
        # Backends round differently by some units in the last place, and updates add up.
        allowed = 4 * (len(expected["loss"]) + 1) * torch.finfo(torch.float32).eps * rms(wanted)
        assert rms(got - wanted) <= allowed, f"{name}: {rms(got - wanted):.3g} > {allowed:.3g}"


def record() -> None:
    torch.set_num_threads(1)
    GOLDEN.mkdir(exist_ok=True)
    for experiment in TINY:
        with tempfile.TemporaryDirectory() as folder:
            backend = "auto" if experiment.model.cell in ("highway", "urnn") else "eager"
            found = curves(experiment, Path(folder) / "run", backend=backend)
        golden_file(experiment).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    record()
