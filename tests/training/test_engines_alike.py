"""A memory task trained by the compiled scans of a CPU follows the curve of the plain loop.

`test_on_gpu.py` has the same of CUDA kernels.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from passnet.experiments import get
from passnet.ops.cpu import installed
from passnet.training import load_run, train


def losses(folder):
    lines = load_run(folder).metrics()
    return torch.tensor([line["loss"] for line in lines if line["kind"] == "train"])


@pytest.mark.skipif(isinstance(installed(), str), reason=str(installed()))
@pytest.mark.parametrize("name", ["copy-500/gru-128", "copy-500/lrd-gru-128-50"])
def test_fused_and_reference_backends_train_alike(name, tmp_path):
    preset = get(name)
    task = replace(preset.task, lag=12, train_size=2000, eval_size=100)
    experiment = replace(preset, task=task, updates=120, evaluate_every=120)
    for backend in ("cpu", "reference"):
        train(experiment, tmp_path / backend, device="cpu", backend=backend)
    fused, plain = losses(tmp_path / "cpu"), losses(tmp_path / "reference")
    assert len(plain) > 50 and plain[-1] < 0.8 * plain[0]
    # Rounding grows with the updates, here to 2e-7; a gradient of D that is 1 % off makes 2e-5.
    torch.testing.assert_close(fused, plain, rtol=5e-6, atol=0)
