"""Folders of made-up runs, shared by the tests of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import experiment_of, write_run


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few runs of several tasks: three seeds, a failed one, unfinished ones, changed settings."""
    root = tmp_path_factory.mktemp("results")
    for seed, value in enumerate((0.930, 0.940, 0.944)):
        name = "psmnist/lrd-gru-128-24"
        run = experiment_of(name, seed=seed)
        write_run(root / name / f"seed-{seed}", run, value=value, start=0.1)
    for seed, value in enumerate((4e-4, 0.03, 6e-4)):
        name = "copy-variable-length/lrd-gru-128-50"
        run = experiment_of(name, seed=seed)
        write_run(root / name / f"seed-{seed}", run, value=value, start=2.2)
    name = "addition-750/lr-gru-128-24"
    write_run(root / name / "seed-0", experiment_of(name), value=0.0026, start=0.8)
    name = "highway-mnist/lr-1024-256"
    write_run(root / name / "seed-0", experiment_of(name), value=0.9875, start=0.9)
    name = "char-lm/lrd-gru-1000-64"
    write_run(root / name / "seed-0", experiment_of(name), value=2.95, start=12.0)
    name = "char-lm/gru-1000"
    write_run(root / name / "seed-0", experiment_of(name), value=2.9, start=12.0, finished=False)
    name = "beyond/psmnist-42k"
    write_run(root / name / "seed-0", experiment_of(name), value=0.967, start=0.1)
    changed = experiment_of("psmnist/lrd-gru-128-24", batch_size=40)
    write_run(root / "changed", changed, value=0.99, start=0.1)
    return root
