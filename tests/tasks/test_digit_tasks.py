"""MNIST in both forms: loader, splits, permutations, loss, and the synthetic stand-in."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from passnet.config import FlatMnistTask, SequentialMnistTask
from passnet.tasks import data
from passnet.tasks.catalogue import CATALOGUE
from passnet.tasks.data import DataError
from passnet.tasks.digits import Digits, load, synthetic
from passnet.tasks.flat_mnist import FlatMNIST, squared_hinge
from passnet.tasks.labels import prior_scores
from passnet.tasks.permutations import digest, pixels
from passnet.tasks.sequential_mnist import SequentialMNIST


def test_tiny_mnist_is_split_and_ordered(tiny_mnist: Path) -> None:
    splits = load(SequentialMnistTask(), data_dir=str(tiny_mnist))
    assert [len(splits[name].labels) for name in ("train", "valid", "test")] == [25, 5, 8]
    assert splits["valid"].labels.tolist() == [5, 6, 7, 8, 9]
    raw = gzip.decompress((tiny_mnist / "mnist" / "train-images-idx3-ubyte.gz").read_bytes())
    last = np.frombuffer(raw[-784:], np.uint8).reshape(28, 28)
    assert splits["valid"].images[-1].tolist() == last.tolist()


def test_the_digest_is_checked_on_loading(
    tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "CATALOGUE", CATALOGUE)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz .*truncated"):
        load(SequentialMnistTask(), data_dir=str(tiny_mnist))


def test_a_sequence_is_the_image_pixel_by_pixel(tiny_mnist: Path) -> None:
    splits = load(SequentialMnistTask(), data_dir=str(tiny_mnist))
    image = splits["test"].images[5].flatten() / 255
    where = {"data_dir": str(tiny_mnist)}
    plain = SequentialMNIST(SequentialMnistTask(permutation=None), **where).batch(
        "test", 0, batch_size=8
    )
    assert plain.inputs.shape == (784, 8, 1)
    assert torch.equal(plain.inputs[:, 5, 0], image)
    assert plain.targets.tolist() == list(range(8))
    permuted = SequentialMNIST(SequentialMnistTask(permutation="common"), **where)
    order = np.random.RandomState(92916).permutation(784)
    batch = permuted.batch("test", 0, batch_size=8)
    assert torch.equal(batch.inputs[:, 5, 0], image[torch.from_numpy(order)])
    assert permuted.record()["permutation_pixels"] == order.tolist()
    flat = FlatMNIST(FlatMnistTask(), **where).batch("test", 0, batch_size=8)
    assert torch.equal(flat.inputs[5], image)


def test_the_authors_chain() -> None:
    """Seed once, shuffle the training order, shuffle the validation order, then permute."""
    stream = np.random.RandomState(1234)
    for size in (50_000, 10_000):
        order = list(range(size))
        stream.shuffle(order)
    assert pixels("author") == stream.permutation(784).tolist()


def test_permutations_are_what_they_always_were() -> None:
    assert pixels("author")[:8] == [538, 505, 546, 510, 734, 548, 542, 590]
    assert pixels("common")[:8] == [319, 576, 323, 107, 355, 716, 197, 20]
    for name in ("author", "common"):
        assert sorted(pixels(name)) == list(range(784))
    assert digest([2, 0, 1]).startswith("cea67d8b58d72bb9387778326578aa3e")
    with pytest.raises(ValueError, match="'author', 'common' or None"):
        pixels("bit reversal")


def test_pooling_averages_squares() -> None:
    image = torch.tensor([[0, 4, 10, 10], [8, 4, 10, 10], [1, 1, 0, 0], [1, 1, 0, 200]])
    digits = Digits(image.to(torch.uint8).unsqueeze(0), torch.tensor([3]))
    assert digits.pooled(2).images.tolist() == [[[4, 10], [1, 50]]]
    assert digits.pooled(1) is digits


def test_squared_hinge_by_hand() -> None:
    assert squared_hinge(torch.tensor([[1e20, -1e20]]), torch.tensor([0])) == 0
    outputs = torch.tensor([[2.0, -3.0, 0.5], [0.0, 0.0, 0.0]])
    # Class 0: right by more than 1; class 1: wrong side by none; class 2: 1 + 0.5 too high.
    assert squared_hinge(outputs, torch.tensor([0, 2])).tolist() == [2.25, 3.0]
    task = FlatMNIST(FlatMnistTask(source="synthetic", sizes=(4, 2, 2)))
    batch = task.batch("test", 0, batch_size=2)
    assert task.loss(torch.zeros(2, 10), batch) == 10
    scores = task.finish(task.totals(torch.eye(10)[batch.targets] * 2 - 1, batch))
    assert scores == {"accuracy": 1.0, "error_percent": 0.0, "squared_hinge": 0.0}


@pytest.mark.parametrize("kind", ["sequential", "flat"])
def test_label_smoothing_is_for_training_alone(kind: str) -> None:
    small = {"source": "synthetic", "sizes": (4, 2, 2)}

    def task(smoothing: float):
        if kind == "sequential":
            return SequentialMNIST(SequentialMnistTask(**small, label_smoothing=smoothing))
        return FlatMNIST(FlatMnistTask(**small, loss="cross_entropy", label_smoothing=smoothing))

    plain, smooth = task(0.0), task(0.2)
    batch = plain.batch("train", 0, batch_size=4)
    outputs = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    log = outputs.log_softmax(-1)
    right, all_alike = -log[torch.arange(4), batch.targets].mean(), -log.mean()
    torch.testing.assert_close(plain.loss(outputs, batch), right)
    torch.testing.assert_close(smooth.loss(outputs, batch), 0.8 * right + 0.2 * all_alike)
    scores = [own.finish(own.totals(outputs, batch)) for own in (plain, smooth)]
    assert scores[0] == scores[1]
    assert smooth.record()["label_smoothing"] == 0.2


def test_mixup_lays_a_second_digit_over_each() -> None:
    small = {"source": "synthetic", "sizes": (60, 20, 20)}
    plain, mixed = FlatMNIST(FlatMnistTask(**small)), FlatMNIST(FlatMnistTask(**small, mixup=0.4))
    for split in ("valid", "test"):
        assert torch.equal(
            plain.batch(split, 0, batch_size=20).inputs, mixed.batch(split, 0, batch_size=20).inputs
        )
    all_digits = plain.batch("train", 0, batch_size=60)
    weights, others = [], []
    for index in range(9):
        alone = plain.batch("train", index, batch_size=20, seed=3)
        both = mixed.batch("train", index, batch_size=20, seed=3)
        torch.testing.assert_close(both.targets.sum(-1), torch.ones(20))
        for row in range(20):
            weight = 1 - float(both.targets[row, alone.targets[row]])
            if weight < 0.02:  # too weak to see what it is, or the same digit twice
                continue
            over = (both.inputs[row] - (1 - weight) * alone.inputs[row]) / weight
            gaps = (all_digits.inputs - over).abs().amax(-1)
            other = int(gaps.argmin())
            assert gaps[other] < 1e-4
            found = float(both.targets[row, all_digits.targets[other]])
            assert found == pytest.approx(weight, abs=1e-6)
            weights.append(weight)
            others.append(other)
    assert max(weights) <= 0.4 and max(weights) > 0.38
    assert 0.17 < sum(weights) / len(weights) < 0.25
    assert len(set(others)) > 40
    assert mixed.record()["mixup"] == 0.4


def test_mixed_batches_are_a_function_of_their_position() -> None:
    task = SequentialMNIST(
        SequentialMnistTask(source="synthetic", pool=7, sizes=(60, 20, 20), mixup=0.5)
    )
    whole = task.batch("train", 1, batch_size=20, seed=1)
    again = task.batch("train", 1, batch_size=20, seed=1)
    halves = [task.batch("train", 1, batch_size=20, seed=1, shard=(k, 2)) for k in range(2)]
    pieces = [task.batch("train", k, batch_size=10, seed=1) for k in (2, 3)]
    assert torch.equal(whole.inputs, again.inputs)
    for parts in (halves, pieces):
        assert torch.equal(torch.cat([part.inputs for part in parts], 1), whole.inputs)
        assert torch.equal(torch.cat([part.targets for part in parts]), whole.targets)
    assert not torch.equal(task.batch("train", 1, batch_size=20, seed=2).targets, whole.targets)
    fixed = SequentialMNIST(
        SequentialMnistTask(source="synthetic", pool=7, sizes=(60, 20, 20), mixup=0.5, order="file")
    )
    drawn = [fixed.batch("train", 0, batch_size=20, seed=seed).targets for seed in range(2)]
    weights = [1 - targets.amax(-1) for targets in drawn]
    others = [targets.topk(2).indices[:, 1] for targets in drawn]
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(others[0], others[1])
    later = task.batch("train", 4, batch_size=20, seed=1)
    assert not torch.equal(later.targets, whole.targets)


@pytest.mark.parametrize("loss", ["squared_hinge", "cross_entropy"])
def test_a_mixed_target_costs_its_shares_of_both(loss: str) -> None:
    task = FlatMNIST(FlatMnistTask(source="synthetic", sizes=(4, 2, 2), loss=loss, mixup=0.5))
    batch = task.batch("train", 0, batch_size=3)
    outputs = torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    first, second = torch.tensor([1, 2, 3]), torch.tensor([4, 5, 3])
    share = torch.tensor([0.9, 0.6, 0.7]).unsqueeze(1)
    shares = share * torch.eye(10)[first] + (1 - share) * torch.eye(10)[second]

    def costs(targets: torch.Tensor) -> torch.Tensor:
        rows = []
        for k in range(3):
            one = replace(batch, targets=targets[k : k + 1], denominator=1.0)
            rows.append(task.loss(outputs[k : k + 1], one))
        return torch.stack(rows)

    expected = share.squeeze(1) * costs(first) + (1 - share.squeeze(1)) * costs(second)
    torch.testing.assert_close(costs(shares), expected)
    mixed, named = (
        task.totals(outputs, replace(batch, targets=targets)) for targets in (shares, first)
    )
    assert mixed.sums["right"] == named.sums["right"]
    assert task.totals(shares, replace(batch, targets=shares)).sums["right"] == 3


@pytest.mark.parametrize(
    ("kind", "options"),
    [(SequentialMNIST, SequentialMnistTask), (FlatMNIST, FlatMnistTask)],
)
def test_validation_digits_that_are_not_held_out_are_trained_on(
    kind, options, tiny_mnist: Path
) -> None:
    held, all_of_them = (
        kind(options(order="file", hold_out=hold_out), data_dir=str(tiny_mnist))
        for hold_out in (True, False)
    )
    train, valid = (held.batch(split, 0, batch_size=25) for split in ("train", "valid"))
    both = all_of_them.batch("train", 0, batch_size=30)
    axis = 1 if kind is SequentialMNIST else 0
    assert torch.equal(both.inputs, torch.cat([train.inputs, valid.inputs], axis))
    assert torch.equal(both.targets, torch.cat([train.targets, valid.targets]))
    assert torch.equal(all_of_them.batch("valid", 0, batch_size=25).targets, valid.targets)
    assert held.holds_out and not all_of_them.holds_out
    assert all_of_them.record()["hold_out"] is False


def test_penalty_on_the_output_matrix() -> None:
    weight = torch.tensor([[3.0, 0.0], [0.0, 4.0]], requires_grad=True)
    penalty = FlatMNIST(FlatMnistTask(source="synthetic")).penalty(weight)
    torch.testing.assert_close(penalty, torch.tensor(0.025))
    assert torch.autograd.grad(penalty, weight)[0][1, 1] == pytest.approx(8e-3)
    norm = FlatMNIST(FlatMnistTask(source="synthetic", l2=1e-5, l2_of="norm")).penalty(weight)
    torch.testing.assert_close(norm, torch.tensor(5e-5))
    assert FlatMNIST(FlatMnistTask(source="synthetic", l2=None)).penalty(weight) is None
    assert SequentialMNIST(SequentialMnistTask(source="synthetic")).penalty(weight) is None


def test_chance_is_the_score_of_the_training_frequencies() -> None:
    scores = prior_scores(torch.tensor([1, 1, 1, 0]), torch.tensor([1, 0]))
    assert scores["accuracy"] == 0.5 and scores["error_percent"] == 50
    assert scores["cross_entropy_nats"] == pytest.approx(-(math.log(0.75) + math.log(0.25)) / 2)
    task = SequentialMNIST(SequentialMnistTask(source="synthetic", pool=14, sizes=(300, 20, 200)))
    batch = task.batch("test", 0, batch_size=200)
    shares = torch.bincount(task.batch("train", 0, batch_size=300).targets, minlength=10) / 300
    totals = task.totals(shares.log().expand(200, 10), batch)
    assert task.finish(totals) == pytest.approx(task.chance("test"))


def test_synthetic_digits() -> None:
    digits = synthetic("train", 3000)
    assert digits.images.shape == (3000, 28, 28) and digits.images.dtype == torch.uint8
    assert torch.equal(synthetic("train", 40).images, digits.images[:40])
    assert not torch.equal(synthetic("test", 40).images, digits.images[:40])
    counts = torch.bincount(digits.labels, minlength=10)
    assert len(counts) == 10 and ((counts - 300.0) ** 2 / 300).sum() < 28
    # The nearest mean image names most digits: the classes are different, and not all alike.
    images = digits.images.flatten(1).float()
    means = torch.stack([images[:2000][digits.labels[:2000] == d].mean(0) for d in range(10)])
    named = torch.cdist(images[2000:], means).argmin(1)
    right = (named == digits.labels[2000:]).float().mean()
    assert 0.5 < right < 0.999


def test_synthetic_pixels_are_what_they_always_were() -> None:
    digits = synthetic("train", 20)
    assert digits.labels[:8].tolist() == [3, 4, 7, 9, 4, 5, 6, 1]
    assert int(digits.images.long().sum()) == 536_459


def test_missing_data_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    task = SequentialMNIST(SequentialMnistTask())
    assert task.record()["task"] == "sequential_mnist"
    with pytest.raises(DataError, match="passnet data fetch mnist"):
        task.batch("train", 0, batch_size=2)
