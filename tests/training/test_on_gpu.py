"""What only a GPU can show: captured steps, runs side by side, resuming there."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
import torch
from tiny_runs import COPY, DIGITS, STREAM, TINY, outcome

from passnet.experiments import registry
from passnet.training import (
    Interrupted,
    Saved,
    Started,
    load_run,
    train,
    train_together,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


# Rounding grows with the updates: engines on a CPU differ by 2e-6 of a loss within 200 of them.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def losses(folder):
    lines = load_run(folder).metrics()
    return torch.tensor([line["loss"] for line in lines if line["kind"] == "train"])


@pytest.mark.parametrize("experiment", TINY, ids=lambda e: e.name)
def test_a_captured_step_is_the_ordinary_one(experiment, tmp_path):
    events = []
    train(experiment, tmp_path / "graph", device="cuda", listener=events.append)
    train(experiment, tmp_path / "plain", device="cuda", capture=False)
    sentence = next(event.capture for event in events if isinstance(event, Started))
    assert sentence is None
    graph, plain = losses(tmp_path / "graph"), losses(tmp_path / "plain")
    # Masks are the same draws either way; only the order of atomic sums may differ.
    torch.testing.assert_close(graph, plain, **CLOSE)


def test_masks_differ_from_replay_to_replay(tmp_path):
    model = replace(COPY.model, dropout_state=0.5)
    experiment = replace(COPY, model=model, optimiser=replace(COPY.optimiser, learning_rate=1e-30))
    task = replace(COPY.task, train_size=8)
    experiment = replace(experiment, task=task, ema=None, updates=20, evaluate_every=20)
    train(experiment, tmp_path, device="cuda")
    # The same eight sequences and parameters at every update: only the masks change the loss.
    assert len(set(losses(tmp_path)[6:].tolist())) > 5


def test_it_follows_the_curve_of_the_cpu(tmp_path):
    train(DIGITS, tmp_path / "gpu", device="cuda")
    train(DIGITS, tmp_path / "cpu", device="cpu")
    gpu, cpu = losses(tmp_path / "gpu"), losses(tmp_path / "cpu")
    torch.testing.assert_close(gpu, cpu, **CLOSE)


@pytest.mark.parametrize("experiment", [COPY, STREAM, DIGITS], ids=lambda e: e.name)
def test_a_saved_run_goes_on(experiment, tmp_path):
    asked = []

    def stop(event):
        # Once: a second signal means at once, without saving.
        if isinstance(event, Saved) and event.update == 12 and not asked:
            asked.append(event)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        train(experiment, tmp_path / "a", device="cuda", listener=stop, checkpoint_every=12)
    train(experiment, tmp_path / "a", device="cuda")
    train(experiment, tmp_path / "b", device="cuda")
    torch.testing.assert_close(losses(tmp_path / "a"), losses(tmp_path / "b"), **CLOSE)


def test_runs_side_by_side_are_those_alone(tmp_path):
    experiments = [replace(COPY, seed=0), replace(COPY, seed=1), DIGITS]
    events = [[] for _ in experiments]
    results = train_together(
        experiments,
        [tmp_path / str(k) for k in range(3)],
        device="cuda",
        listeners=[own.append for own in events],
    )
    assert [result.preset for result in results] == [e.name for e in experiments]
    starts = [next(e.capture for e in own if isinstance(e, Started)) for own in events]
    assert starts == [None, None, None]
    for k, experiment in enumerate(experiments):
        train(experiment, tmp_path / f"alone-{k}", device="cuda")
        together, alone = losses(tmp_path / str(k)), losses(tmp_path / f"alone-{k}")
        torch.testing.assert_close(together, alone, **CLOSE)
    assert set(outcome(tmp_path / "0")["result"]) == set(outcome(tmp_path / "1")["result"])


def test_fused_and_reference_backends_train_alike(tmp_path):
    preset = registry.get("copy-500/lrd-gru-128-50")
    task = replace(preset.task, lag=100, train_size=2000, eval_size=100)
    experiment = replace(preset, task=task, updates=200, evaluate_every=200)
    for backend in ("cuda", "reference"):
        train(experiment, tmp_path / backend, device="cuda", backend=backend)
    fused, plain = losses(tmp_path / "cuda"), losses(tmp_path / "reference")
    assert plain[-1] < plain[0]
    torch.testing.assert_close(fused, plain, **CLOSE)


def test_bf16(tmp_path):
    events = []
    experiment = replace(COPY, precision="bf16")
    result = train(experiment, tmp_path, device="cuda", listener=events.append)
    assert result.value is not None
    assert next(event.capture for event in events if isinstance(event, Started)) is None
