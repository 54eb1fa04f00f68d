"""The addition task: layout, its two distributions and the chance level."""

from __future__ import annotations

import pytest
import torch

from passnet.config import AdditionTask
from passnet.tasks.addition import Addition, mark
from passnet.tasks.task import Totals


def test_layout_by_hand() -> None:
    numbers = torch.tensor([[0.5, 0.125], [0.25, 0.5], [0.75, 0.0]])
    inputs, targets = mark(numbers, torch.tensor([[0, 1], [2, 0]]))
    assert inputs[:, 0].tolist() == [[0.5, 1], [0.25, 0], [0.75, 1]]
    assert inputs[:, 1].tolist() == [[0.125, 1], [0.5, 1], [0.0, 0]]
    assert targets.tolist() == [1.25, 0.625]


@pytest.mark.parametrize("steps", [2, 9, 10])
def test_distributions(steps: int) -> None:
    task = Addition(AdditionTask(steps=steps, train_size=4000, eval_size=4000))
    half = steps // 2
    batches = [*task.batches("test", batch_size=4000), task.batch("train", 0, batch_size=4000)]
    assert [batch.label for batch in batches] == ["paper", "author", "paper"]
    for batch in batches:
        numbers, marks = batch.inputs.unbind(-1)
        assert (marks.sum(0) == 2).all() and ((marks == 0) | (marks == 1)).all()
        assert torch.equal((numbers * marks).sum(0), batch.targets)
        assert abs(numbers.mean() - 0.5) < 0.02
        early = marks[:half].sum(0)
        counts = marks.sum(1)
        if batch.label == "paper":
            assert (early == 1).all()
            expected = torch.cat(
                (
                    torch.full((half,), 4000 / half),
                    torch.full((steps - half,), 4000 / (steps - half)),
                )
            )
        else:
            assert steps == 2 or set(early.tolist()) == {0, 1, 2}
            expected = torch.full((steps,), 8000 / steps)
        assert ((counts - expected) ** 2 / expected).sum() < 40


def test_the_two_test_sets_are_scored_apart() -> None:
    task = Addition(AdditionTask(steps=6, eval_size=10))
    assert task.batch_count("test", batch_size=4) == 6
    totals = Totals()
    for batch in task.batches("test", batch_size=4):
        error = 0.5 if batch.label == "paper" else 2.0
        totals = totals + task.totals((batch.targets + error).unsqueeze(-1), batch)
    assert task.finish(totals) == pytest.approx(
        {"mse_paper_distribution": 0.25, "mse_author_distribution": 4.0}
    )


def test_chance_is_the_score_of_answering_one() -> None:
    task = Addition(AdditionTask(steps=20, eval_size=30_000))
    totals = Totals()
    for batch in task.batches("test", batch_size=10_000):
        totals = totals + task.totals(torch.ones(len(batch.targets), 1), batch)
    assert task.finish(totals) == pytest.approx(task.chance(), rel=0.03)
    assert task.chance()["mse_paper_distribution"] == pytest.approx(1 / 6)


def test_loss_by_hand() -> None:
    task = Addition(AdditionTask(steps=4, eval_size=2))
    batch = task.batch("test", 0, batch_size=2)
    outputs = (batch.targets + torch.tensor([1.0, 3.0])).unsqueeze(-1)
    torch.testing.assert_close(task.loss(outputs, batch), torch.tensor(5.0))


def test_one_step_cannot_hold_two_marks() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        Addition(AdditionTask(steps=1))
