"""One update: pieces of a batch, penalties, broken gradients, row norms, precision, capture."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
import torch
from tiny_runs import ADDITION, COPY, DIGITS, HIGHWAY, SENTENCES, STREAM, TINY

from passnet.config import Adam, ClipNorm, Constant, LowRankPlusDiagonal, Model, RmsProp
from passnet.tasks.task import Batch
from passnet.training import (
    Diverged,
    Result,
    RunError,
    Warned,
    evaluate,
    load_run,
    train,
    train_together,
)
from passnet.training.assembly import Options, assemble
from passnet.training.distributed import World
from passnet.training.graph import signature, why_not_captured
from passnet.training.update import Meters

CPU = World(torch.device("cpu"))
PLAIN = Model(size=8, matrix=LowRankPlusDiagonal(3), carry_bias=1.0, learn_initial_state=True)


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def take(experiment, updates):
    """Parameters and meters after some updates."""
    parts = assemble(experiment, options=Options(), world=CPU)
    carried = parts.training.carried
    for update in range(updates):
        pieces = parts.feed.pieces(update)
        carried = [s if b.carries_state else None for b, s in zip(pieces, carried, strict=True)]
        carried = parts.step(pieces, carried)
    return dict(parts.training.network.named_parameters()), parts.training.meters.tensors


@pytest.mark.parametrize("experiment", [COPY, STREAM, SENTENCES], ids=lambda e: e.name)
@pytest.mark.parametrize("pieces", [2, 4])
def test_pieces_of_a_batch_give_the_gradient_of_the_whole(experiment, pieces, double):
    experiment = replace(experiment, model=PLAIN, ema=None, accumulate=1)
    whole, loss = take(experiment, 4)
    split, sums = take(replace(experiment, accumulate=pieces), 4)
    for name, value in whole.items():
        torch.testing.assert_close(split[name], value, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(sums["loss"], loss["loss"], rtol=1e-12, atol=0)


def test_the_penalty_is_counted_once_however_many_pieces():
    task = replace(HIGHWAY.task, l2=1e4)
    experiment = replace(
        HIGHWAY,
        task=task,
        model=Model(size=8, cell="highway", num_layers=1),
        optimiser=Adam(1e-3),
        schedule=Constant(),
    )
    whole, loss = take(experiment, 1)
    split, sums = take(replace(experiment, accumulate=4), 1)
    assert sums["loss"].item() == pytest.approx(loss["loss"].item())
    assert sums["norm"].item() == pytest.approx(loss["norm"].item())
    assert loss["loss"] > 1e4  # the penalty is most of it
    torch.testing.assert_close(split["output.weight"], whole["output.weight"])


def test_masks_depend_on_the_update_alone(tmp_path):
    train(COPY, tmp_path / "a", device="cpu")
    torch.manual_seed(99)
    torch.randn(17)
    train(COPY, tmp_path / "b", device="cpu")
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in "ab"]
    assert metrics[0] == metrics[1]
    train(replace(COPY, seed=1), tmp_path / "c", device="cpu")
    assert (tmp_path / "c" / "metrics.jsonl").read_bytes() != metrics[0]


def test_rows_stay_within_their_norm(tmp_path):
    model = replace(COPY.model, weight_norm=False, max_row_norm=0.4)
    experiment = replace(COPY, model=model, optimiser=RmsProp(0.05), ema=None, updates=10)
    train(experiment, tmp_path, device="cpu")
    weights = load_run(tmp_path).folder.weights()
    lengths = weights["rnn.cells.0.input_weight"].norm(dim=-1)
    assert lengths.max() <= 0.4 * (1 + 1e-6)
    assert lengths.max() > 0.39


DIVERGING = replace(ADDITION, optimiser=RmsProp(1e30), clipping=None, updates=12, evaluate_every=12)


def test_a_broken_gradient_stops_with_a_sentence(tmp_path):
    with pytest.raises(Diverged, match=r"gradient of update \d+ is not finite.*nan_policy"):
        train(DIVERGING, tmp_path, device="cpu", checkpoint_every=1)
    # What is saved is from before: nothing in it is broken.
    newest = sorted((tmp_path / "checkpoints").glob("*.json"))
    if newest:
        from passnet.training.checkpoint import load_checkpoint

        tensors = load_checkpoint(newest[-1]).tensors
        assert all(t.isfinite().all() for n, t in tensors.items() if n.startswith("meter"))


def test_a_run_that_diverged_is_complete_without_a_value(tmp_path):
    with pytest.raises(Diverged) as first:
        train(DIVERGING, tmp_path, device="cpu")
    record = json.loads((tmp_path / "result.json").read_text())
    assert set(record) == {field.name for field in fields(Result)}
    assert record["value"] is record["selected_update"] is record["weights_sha256"] is None
    assert record["test"] == record["validation"] == {}
    assert record["updates"] == first.value.update >= 1
    assert (
        record["stopped"] == f"diverged: the gradient of update {record['updates']} is not finite"
    )
    assert record["chance"] and record["seconds"] > 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(Diverged) as again:
        train(DIVERGING, tmp_path, device="cpu")
    assert str(again.value) == str(first.value)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"diverged at update \d+, before anything was saved"):
        evaluate(tmp_path, device="cpu")


def test_the_parameters_before_it_diverged_can_still_be_read(tmp_path, monkeypatch):
    broken_at(monkeypatch, {3})
    experiment = replace(COPY, nan_policy="stop")
    with pytest.raises(Diverged, match="update 3 "):
        train(experiment, tmp_path, device="cpu", checkpoint_every=2)
    weights = load_run(tmp_path).folder.weights()
    assert weights and all(tensor.isfinite().all() for tensor in weights.values())


def test_a_seed_that_diverges_leaves_the_others_alone(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    found = train_together([DIVERGING, ADDITION], folders, device="cpu")
    assert isinstance(found[0], Diverged) and found[1].value is not None
    assert load_run(folders[0]).result.diverged and not load_run(folders[1]).result.diverged


def broken_at(monkeypatch, numbers):
    """Gradients of these updates, counted from 1, are NaN."""
    from passnet.tasks.copy import Copy

    real, calls = Copy.loss, iter(range(1, 10**6))

    def loss(self, outputs, batch):
        value = real(self, outputs, batch)
        return value * float("nan") if next(calls) in numbers else value

    monkeypatch.setattr(Copy, "loss", loss)


def test_recovery_shrinks_the_parameters_and_is_counted(tmp_path, monkeypatch):
    broken_at(monkeypatch, {3, 4})
    events = []
    result = train(COPY, tmp_path, device="cpu", listener=events.append)
    assert result.recovered == 2
    assert result.value is not None
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines if line.get("recovered")] == [3, 4]
    texts = [event.text for event in events if isinstance(event, Warned)]
    assert sum("shrink step" in text for text in texts) == 2


def test_the_update_of_a_broken_gradient_is_the_shrink_step(monkeypatch, double):
    broken_at(monkeypatch, {1})
    experiment = replace(COPY, model=PLAIN, ema=None, optimiser=RmsProp(0.01), nan_policy=0.1)
    start = assemble(experiment, options=Options(), world=CPU).training.network
    after, meters = take(experiment, 1)
    assert meters["first_broken"] == meters["broken"] == 1
    for name, parameter in start.named_parameters():
        gradient = 0.1 * parameter.detach()
        root = (0.9 * 1e-3 + 0.1 * gradient**2).sqrt()
        expected = parameter.detach() - 0.01 * gradient / root
        torch.testing.assert_close(after[name].detach(), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("experiment", [COPY, STREAM, DIGITS], ids=lambda e: e.name)
def test_bf16(experiment, tmp_path):
    result = train(replace(experiment, precision="bf16", updates=6, epochs=None), tmp_path)
    assert result.value is not None
    weights = load_run(tmp_path).folder.weights()
    assert {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()} == {
        torch.float32
    }


def test_meters():
    meters = Meters(torch.device("cpu"))
    for loss, norm, broken in ((1.0, 2.0, False), (3.0, float("nan"), True), (5.0, 4.0, True)):
        meters.add(torch.tensor(loss), torch.tensor(norm), torch.tensor(broken))
    found = {name: tensor.item() for name, tensor in meters.tensors.items()}
    assert found == {"loss": 9.0, "norm": 2.0, "broken": 2.0, "taken": 3.0, "first_broken": 2.0}
    meters.reset()
    found = {name: tensor.item() for name, tensor in meters.tensors.items()}
    assert found == {"loss": 0.0, "norm": 0.0, "broken": 0.0, "taken": 3.0, "first_broken": 2.0}


def batch(**fields):
    return Batch(torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, 2), **fields)


@pytest.mark.parametrize(
    ("world", "reason"),
    [(CPU, "no CUDA device"), (World(torch.device("cuda", 0), 0, 2), "between processes")],
)
def test_why_a_step_is_not_captured(world, reason):
    assert reason in why_not_captured(world)


def test_a_step_that_is_captured():
    assert why_not_captured(World(torch.device("cuda", 0))) is None


def test_one_graph_serves_calls_of_one_form():
    state = (torch.zeros(1, 2, 5),)
    same = signature([batch()], [state])
    assert signature([batch()], [(torch.ones(1, 2, 5),)]) == same
    assert signature([batch()], [None]) != same
    assert signature([batch(denominator=2.0)], [state]) != same
    assert signature([batch(mask=torch.ones(3, 2))], [state]) != same
    counted = signature([batch(denominator=torch.tensor(2.0))], [state])
    assert counted == signature([batch(denominator=torch.tensor(3.0))], [state]) != same


@pytest.mark.parametrize("experiment", TINY, ids=lambda e: e.name)
def test_every_task_says_on_a_cpu_that_nothing_is_captured(experiment):
    assert "no CUDA device" in assemble(experiment, options=Options(), world=CPU).refused


def test_clipping_is_that_of_the_experiment():
    _, free = take(replace(COPY, clipping=None), 3)
    _, held = take(replace(COPY, clipping=ClipNorm(1e-6)), 3)
    assert free["norm"] != held["norm"]  # the norm before clipping, of other parameters
