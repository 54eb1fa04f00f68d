"""Laws that every task obeys, run over all of them."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from passnet.config import (
    METRICS,
    AdditionTask,
    CharacterTask,
    CopyTask,
    FlatMnistTask,
    SequentialMnistTask,
)
from passnet.tasks.addition import Addition
from passnet.tasks.character_sentences import CharacterSentences
from passnet.tasks.character_stream import CharacterStream
from passnet.tasks.copy import Copy
from passnet.tasks.data import DataError
from passnet.tasks.flat_mnist import FlatMNIST
from passnet.tasks.sequential_mnist import SequentialMNIST
from passnet.tasks.task import Batch, Task, Totals

KINDS = (
    CopyTask,
    AdditionTask,
    SequentialMnistTask,
    FlatMnistTask,
    CharacterTask,
)
SMALL = {"source": "synthetic", "pool": 7, "sizes": (50, 13, 11)}
COPY = {"lag": 5, "length": 3, "eval_size": 11}
TASKS: dict[str, Callable[[], Task]] = {
    "copy": lambda: Copy(CopyTask(train_size=40, **COPY)),
    "copy in one order": lambda: Copy(CopyTask(train_size=40, order="fixed", **COPY)),
    "copy fresh": lambda: Copy(CopyTask(train_size=None, **COPY)),
    "copy length": lambda: Copy(CopyTask(form="variable_length", train_size=40, **COPY)),
    "copy lag": lambda: Copy(CopyTask(form="variable_lag", train_size=None, **COPY)),
    "addition": lambda: Addition(AdditionTask(steps=9, train_size=40, eval_size=11)),
    "addition fresh": lambda: Addition(AdditionTask(steps=8, train_size=None, eval_size=11)),
    "sequential": lambda: SequentialMNIST(SequentialMnistTask(permutation=None, **SMALL)),
    "permuted": lambda: SequentialMNIST(SequentialMnistTask(permutation="author", **SMALL)),
    "flat": lambda: FlatMNIST(FlatMnistTask(**SMALL)),
    "sentences": lambda: CharacterSentences(CharacterTask(source="embedded")),
    "sentences shuffled": lambda: CharacterSentences(
        CharacterTask(source="embedded", order="shuffled", average="character", longest=60)
    ),
    "stream": lambda: CharacterStream(CharacterTask(mode="stream", source="embedded", window=9)),
}


@pytest.fixture(scope="module", params=TASKS)
def make(request: pytest.FixtureRequest) -> Callable[[], Task]:
    return TASKS[request.param]


@pytest.fixture(scope="module")
def task(make: Callable[[], Task]) -> Task:
    return make()


def same(one: Batch, two: Batch) -> bool:
    for field in fields(Batch):
        left, right = getattr(one, field.name), getattr(two, field.name)
        if isinstance(left, torch.Tensor):
            if not (isinstance(right, torch.Tensor) and left.dtype == right.dtype):
                return False
            if not torch.equal(left, right):
                return False
        elif left != right:
            return False
    return True


def outputs(task: Task, batch: Batch) -> torch.Tensor:
    """Outputs that depend on each row's own input only, as a model's would."""
    if not batch.inputs.is_floating_point():
        table = torch.sin(torch.arange(task.input_size * task.output_size).double() * 1.7)
        return table.view(task.input_size, task.output_size)[batch.inputs]
    weight = torch.sin(torch.arange(task.input_size * task.output_size).double() * 1.3)
    features = batch.inputs.double() if task.readout == "flat" else batch.inputs.double().sum(0)
    return features @ weight.view(task.input_size, task.output_size)


def score(task: Task, split: str, batch_size: int, shard: tuple[int, int] | None = None) -> Totals:
    totals = Totals()
    for batch in task.batches(split, batch_size=batch_size, shard=shard):
        totals = totals + task.totals(outputs(task, batch), batch)
    return totals


def test_shapes(task: Task) -> None:
    batch = task.batch("train", 0, batch_size=6)
    if task.readout == "flat":
        assert batch.inputs.shape == (6, task.input_size)
    elif not batch.inputs.is_floating_point():
        assert batch.inputs.dtype == torch.int64 and batch.inputs.shape[1] == 6
        assert batch.inputs.min() >= 0 and batch.inputs.max() < task.input_size
    else:
        assert batch.inputs.shape[1:] == (6, task.input_size)
        assert batch.inputs.dtype == torch.float32 and batch.inputs.is_contiguous()
    assert batch.targets.shape == (batch.inputs.shape[:2] if task.readout == "steps" else (6,))
    if not batch.targets.is_floating_point():
        assert batch.targets.min() >= 0 and batch.targets.max() < task.output_size


def test_a_batch_is_a_pure_function_of_its_place(make: Callable[[], Task], task: Task) -> None:
    other = make()
    for index in (11, 0, 3, 11):
        one = task.batch("train", index, batch_size=6, seed=5)
        assert same(one, other.batch("train", index, batch_size=6, seed=5))
        other.batch("valid", 0, batch_size=4)
        assert same(one, other.batch("train", index, batch_size=6, seed=5))


def test_going_on_from_a_position_gives_the_same_batches(task: Task) -> None:
    whole = list(itertools.islice(task.batches("train", batch_size=6, seed=2), 12))
    later = itertools.islice(task.batches("train", batch_size=6, seed=2, start=7), 5)
    assert all(same(one, two) for one, two in zip(whole[7:], later, strict=True))


def test_global_generators_are_left_alone(make: Callable[[], Task]) -> None:
    def states() -> tuple[object, ...]:
        numpy_state = np.random.get_state()
        return random.getstate(), numpy_state[1].tobytes(), torch.get_rng_state().tolist()

    before = states()
    one = make()
    first = one.batch("train", 0, batch_size=6)
    one.chance()
    assert states() == before
    random.seed(99), np.random.seed(99), torch.manual_seed(99)
    assert same(first, make().batch("train", 0, batch_size=6))


def examples(task: Task, batch: Batch) -> list[tuple]:
    """The examples of a batch with their targets and lengths, in an order of their own."""
    inputs = batch.inputs if task.readout == "flat" else batch.inputs.transpose(0, 1)
    targets = batch.targets.transpose(0, 1) if task.readout == "steps" else batch.targets
    lengths = [0] * len(inputs) if batch.lengths is None else batch.lengths.tolist()
    return sorted(zip(lengths, inputs.tolist(), targets.tolist(), strict=True))


@pytest.mark.parametrize("world", [1, 2, 3, 6])
@pytest.mark.parametrize("index", [0, 4])
def test_shares_make_up_the_batch(task: Task, world: int, index: int) -> None:
    whole = task.batch("train", index, batch_size=6, seed=1)
    shares = [
        task.batch("train", index, batch_size=6, seed=1, shard=(rank, world))
        for rank in range(world)
    ]
    assert sorted(e for share in shares for e in examples(task, share)) == examples(task, whole)
    losses = [task.loss(outputs(task, share), share) for share in shares]
    expected = task.loss(outputs(task, whole), whole)
    torch.testing.assert_close(sum(losses) / world, expected)
    assert all(share.carries_state == whole.carries_state for share in shares)


def test_more_processes_than_rows_change_nothing(task: Task) -> None:
    whole = task.batch("train", 1, batch_size=3, seed=1)
    shares = [task.batch("train", 1, batch_size=3, seed=1, shard=(r, 5)) for r in range(5)]
    assert all(share.inputs.numel() for share in shares)
    losses = [task.loss(outputs(task, share), share) for share in shares]
    torch.testing.assert_close(sum(losses) / 5, task.loss(outputs(task, whole), whole))
    totals = Totals()
    for share in shares:
        totals = totals + task.totals(outputs(task, share), share)
    expected = task.finish(task.totals(outputs(task, whole), whole))
    assert task.finish(totals) == pytest.approx(expected, rel=1e-12)


def test_gradients_average_to_those_of_the_whole_batch(task: Task) -> None:
    weight = torch.tensor(0.7, requires_grad=True)

    def slope(batch: Batch) -> torch.Tensor:
        loss = task.loss(outputs(task, batch) * weight, batch)
        return torch.autograd.grad(loss, weight)[0]

    whole = slope(task.batch("train", 2, batch_size=6))
    shares = [slope(task.batch("train", 2, batch_size=6, shard=(r, 4))) for r in range(4)]
    torch.testing.assert_close(sum(shares) / 4, whole)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_scores_do_not_depend_on_batches_or_processes(task: Task, split: str) -> None:
    expected = task.finish(score(task, split, 100))
    # A stream is cut into as many lanes as the batch is wide: the outputs here need no state.
    assert task.finish(score(task, split, 4)) == pytest.approx(expected, rel=1e-12)
    shares = [score(task, split, 5, (rank, 3)) for rank in range(3)]
    together = shares[0] + shares[1] + shares[2]
    assert task.finish(together) == pytest.approx(expected, rel=1e-12)
    doubled = together.reduce(lambda value: value * 1)
    assert task.finish(doubled) == pytest.approx(expected, rel=1e-12)


def test_evaluation_splits_do_not_depend_on_the_seed_and_differ(task: Task) -> None:
    one = task.batch("valid", 0, batch_size=4, seed=1)
    assert same(one, task.batch("valid", 0, batch_size=4, seed=2))
    assert not same(one, task.batch("test", 0, batch_size=4))


def test_the_scores_are_those_that_experiments_may_name(task: Task) -> None:
    scores = task.finish(score(task, "valid", 6))
    chance = task.chance("valid")
    (metrics,) = [kind.metrics for kind in KINDS if task.name.startswith(kind.kind)]
    assert set(scores) == set(metrics) <= set(METRICS)
    assert chance and set(chance) <= set(scores)
    assert all(math.isfinite(value) for value in [*scores.values(), *chance.values()])


def test_the_record_is_plain_json(make: Callable[[], Task], task: Task) -> None:
    record = task.record()
    assert json.loads(json.dumps(record)) == record == make().record()
    assert record["task"] == task.name


def test_a_batch_that_does_not_exist(task: Task) -> None:
    count = task.batch_count("test", batch_size=4)
    with pytest.raises(ValueError, match="expected 0"):
        task.batch("test", count, batch_size=4)
    with pytest.raises(ValueError, match="'train', 'valid' or 'test'"):
        task.batch("dev", 0, batch_size=4)
    with pytest.raises(ValueError, match="batch_size=0: expected at least 1"):
        task.batch("test", 0, batch_size=0)
    with pytest.raises(ValueError, match="0 <= rank < world"):
        task.batch("train", 0, batch_size=4, shard=(2, 2))


def test_half_precision_outputs_are_scored(task: Task) -> None:
    batch = task.batch("train", 0, batch_size=6)
    rounded = outputs(task, batch).bfloat16()
    assert torch.equal(task.loss(rounded, batch), task.loss(rounded.float(), batch))
    assert task.loss(rounded, batch).dtype == torch.float32


def test_moving_moves_the_batches(make: Callable[[], Task]) -> None:
    moved = make()
    moved.batch("train", 0, batch_size=6)
    batch = moved.to("cpu").batch("train", 0, batch_size=6)
    assert same(batch, make().batch("train", 0, batch_size=6))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_sees_the_same_data(make: Callable[[], Task]) -> None:
    there, here = make().to("cuda"), make()
    for split in ("train", "test"):
        batch = there.batch(split, 1, batch_size=6, seed=4)
        assert batch.inputs.is_cuda and batch.targets.is_cuda
        moved = {name: tensor.cpu() for name, tensor in batch.tensors().items()}
        assert same(replace(batch, **moved), here.batch(split, 1, batch_size=6, seed=4))


def test_epochs_visit_every_row_once_in_another_order() -> None:
    task = Addition(AdditionTask(steps=4, train_size=12, eval_size=1))

    def epoch(number: int, seed: int) -> list[float]:
        batches = (task.batch("train", number * 3 + k, batch_size=4, seed=seed) for k in range(3))
        return torch.cat([batch.targets for batch in batches]).tolist()

    first = epoch(0, 1)
    assert len(set(first)) == 12
    assert epoch(1, 1) != first and sorted(epoch(1, 1)) == sorted(first)
    assert epoch(0, 2) != first and sorted(epoch(0, 2)) == sorted(first)
    task = Addition(AdditionTask(steps=4, train_size=12, eval_size=1, order="fixed"))
    assert epoch(0, 1) == epoch(5, 1) != epoch(0, 2)


def test_fresh_data_never_come_twice_and_depend_on_the_seed() -> None:
    task = Addition(AdditionTask(steps=4, train_size=None, eval_size=1))
    assert task.batch_count("train", batch_size=4) is None
    sums = [task.batch("train", i, batch_size=50, seed=s).targets for i in range(5) for s in (1, 2)]
    assert len(torch.cat(sums).unique()) == 500


def test_a_data_set_depends_on_its_own_seed_only() -> None:
    one, other = (Copy(CopyTask(lag=5, train_size=9, eval_size=9, data_seed=s)) for s in (0, 1))
    assert not same(one.batch("test", 0, batch_size=9), other.batch("test", 0, batch_size=9))


def test_too_large_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="larger than the 9 training examples"):
        Copy(CopyTask(lag=5, train_size=9)).batch("train", 0, batch_size=10)
    with pytest.raises(DataError, match="do not fill"):
        CharacterStream(CharacterTask(mode="stream", source="embedded", window=5000)).batch(
            "train", 0, batch_size=20
        )
