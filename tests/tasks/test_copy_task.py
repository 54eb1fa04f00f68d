"""The three forms of the memory task: layout, distribution and chance level."""

from __future__ import annotations

import math

import pytest
import torch

from passnet.config import CopyTask
from passnet.tasks.copy import BLANK, RUN, STAGES, Copy, arrange
from passnet.tasks.task import Totals
from passnet.training.feed import batches_at_once


def test_layout_by_hand() -> None:
    symbols = torch.tensor([[3, 7, 1], [0, 5, 2], [6, 4, 4]])
    inputs, targets = arrange(
        symbols, torch.tensor([3, 1, 3]), lags=torch.tensor([4, 4, 1]), steps=10
    )
    assert inputs.t().tolist() == [
        [3, 0, 6, 8, 8, 8, 9, 8, 8, 8],
        [7, 8, 8, 8, 9, 8, 8, 8, 8, 8],
        [1, 2, 4, 9, 8, 8, 8, 8, 8, 8],
    ]
    assert targets.t().tolist() == [
        [8, 8, 8, 8, 8, 8, 8, 3, 0, 6],
        [8, 8, 8, 8, 8, 7, 8, 8, 8, 8],
        [8, 8, 8, 8, 1, 2, 4, 8, 8, 8],
    ]


def test_the_papers_layout() -> None:
    """Ten symbols, N - 1 blanks, run, ten blanks; N + 10 blanks and then the symbols."""
    batch = Copy(CopyTask(lag=500)).batch("test", 0, batch_size=3)
    assert batch.inputs.shape == batch.targets.shape == (520, 3)
    assert (batch.inputs[:10] < 8).all() and (batch.inputs[10:509] == BLANK).all()
    assert (batch.inputs[509] == RUN).all() and (batch.inputs[510:] == BLANK).all()
    assert (batch.targets[:510] == BLANK).all()
    assert torch.equal(batch.targets[510:], batch.inputs[:10])


@pytest.mark.parametrize("form", ["fixed", "variable_length", "variable_lag"])
def test_distribution(form: str) -> None:
    task = Copy(CopyTask(form=form, lag=6, eval_size=6000))
    batch = task.batch("test", 0, batch_size=6000)
    data = batch.inputs < 8
    lengths = data.sum(0)
    run = (batch.inputs == RUN).long()
    assert (run.sum(0) == 1).all()
    lags = run.argmax(0) - lengths + 1
    if form == "variable_length":
        counts = torch.bincount(lengths, minlength=11)
        assert counts[0] == 0 and ((counts[1:] - 600.0) ** 2 / 600).sum() < 30
    else:
        assert (lengths == 10).all()
    if form == "variable_lag":
        counts = torch.bincount(lags, minlength=7)
        assert counts[0] == 0 and ((counts[1:] - 1000.0) ** 2 / 1000).sum() < 22
    else:
        assert (lags == 6).all()
    symbols = torch.bincount(batch.inputs[data], minlength=8).double()
    mean = symbols.mean()
    assert len(symbols) == 8 and ((symbols - mean) ** 2 / mean).sum() < 26
    asked = batch.targets != BLANK
    assert torch.equal(asked.sum(0), lengths)
    # Column by column, what is asked for is what was shown, in its order.
    assert torch.equal(batch.targets.t()[asked.t()], batch.inputs.t()[data.t()])


@pytest.mark.parametrize("form", ["fixed", "variable_length", "variable_lag"])
def test_chance_is_what_a_model_without_the_symbols_scores(form: str) -> None:
    task = Copy(CopyTask(form=form, lag=9, eval_size=20_000))
    generator = torch.Generator().manual_seed(1)
    totals = Totals()
    for batch in task.batches("test", batch_size=5000):
        outputs = torch.full((*batch.targets.shape, 10), -60.0)
        asked = (batch.targets != BLANK).unsqueeze(-1)
        outputs[..., BLANK] = torch.where(asked[..., 0], -60.0, 0.0)
        # A little noise makes the guess among equals random without changing the cost.
        noise = 1e-4 * torch.rand((*batch.targets.shape, 8), generator=generator)
        outputs[..., :8] = torch.where(asked, noise, outputs[..., :8])
        totals = totals + task.totals(outputs, batch)
    scores, chance = task.finish(totals), task.chance()
    assert set(scores) == set(chance)
    assert scores["cross_entropy_nats"] == pytest.approx(chance["cross_entropy_nats"], rel=0.01)
    assert scores["accuracy"] == pytest.approx(chance["accuracy"], abs=0.002)
    assert scores["accuracy_on_symbols"] == pytest.approx(0.125, abs=0.005)


def test_chance_of_the_papers_size() -> None:
    assert Copy(CopyTask(lag=500)).chance()["cross_entropy_nats"] == pytest.approx(
        10 * math.log(8) / 520
    )


def test_loss_is_the_mean_over_all_steps() -> None:
    task = Copy(CopyTask(lag=4, eval_size=5))
    batch = task.batch("test", 0, batch_size=5)
    torch.testing.assert_close(
        task.loss(torch.zeros(24, 5, 10), batch), torch.tensor(math.log(10.0))
    )
    perfect = 50.0 * torch.nn.functional.one_hot(batch.targets, 10)
    assert task.loss(perfect, batch) < 1e-6
    scores = task.finish(task.totals(perfect, batch))
    assert scores["accuracy"] == scores["accuracy_on_symbols"] == 1


def test_a_gap_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="lag: got 0, expected a number at least 1"):
        CopyTask(lag=0)


def test_first_batch_is_the_one_it_always_was() -> None:
    """A change here makes old runs impossible to continue or repeat."""
    batch = Copy(CopyTask(lag=3, length=4)).batch("train", 0, batch_size=3, seed=7)
    assert batch.inputs[:4].t().tolist() == [[5, 5, 6, 3], [5, 7, 7, 5], [1, 0, 7, 7]]


def test_a_curriculum_reaches_the_full_lag_and_stays_there() -> None:
    task = Copy(CopyTask(lag=200, length=3, train_size=None, curriculum=100))
    lags = [task.lag_at(update) for update in range(120)]
    assert lags == sorted(lags)
    assert len(set(lags)) == STAGES + 1
    assert lags[0] < 3 and lags[99] < 200 and set(lags[100:]) == {200}
    for update in (0, 50, 100):
        batch = task.batch("train", update, batch_size=4)
        assert batch.inputs.shape == (lags[update] + 6, 4)
        assert (batch.inputs == RUN).int().argmax(0).tolist() == [lags[update] + 2] * 4
        assert batch.denominator == batch.targets.numel()
    assert task.batch("valid", 0, batch_size=4).inputs.shape == (206, 4)


def test_batches_of_a_curriculum_are_not_drawn_together() -> None:
    assert batches_at_once(Copy(CopyTask(lag=9, train_size=None)), 4) > 1
    assert batches_at_once(Copy(CopyTask(lag=9, train_size=None, curriculum=10)), 4) == 1
