"""Scores of a task that names one class for each example or step."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from passnet.tasks.task import Batch, Totals, widened


def cross_entropy(outputs: Tensor, batch: Batch, *, smoothing: float) -> Tensor:
    """What a batch costs in training: its mean in nats, a share of every target spread out."""
    nats = functional.cross_entropy(
        widened(outputs), batch.targets, reduction="none", label_smoothing=smoothing
    )
    return batch.mean(nats)


def step_nats(outputs: Float[Tensor, "T B V"], targets: Int[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    """The cross-entropy of every symbol."""
    rows = widened(outputs).flatten(0, 1)
    return functional.cross_entropy(rows, targets.flatten(), reduction="none").view_as(targets)


def class_totals(outputs: Tensor, batch: Batch, *, costs: dict[str, Tensor]) -> Totals:
    """Sums of the right answers and of each cost [B], over the rows that count."""
    # Mixed training targets are shares of all classes: the largest counts.
    labels = batch.targets if batch.targets.ndim == 1 else batch.targets.argmax(-1)
    right = (outputs.argmax(-1) == labels).double()
    counts = batch.counted(torch.ones_like(right))
    sums = {name: (cost * counts).sum() for name, cost in costs.items()}
    return Totals({"right": (right * counts).sum(), "count": counts.sum(), **sums})


def finish_classes(totals: Totals, *, names: dict[str, str]) -> dict[str, float]:
    """Accuracy, error and the mean of each cost under its public name."""
    sums = {name: value.item() for name, value in totals.sums.items()}
    accuracy = sums["right"] / sums["count"]
    means = {public: sums[name] / sums["count"] for name, public in names.items()}
    return {"accuracy": accuracy, "error_percent": 100 * (1 - accuracy), **means}


def prior_scores(seen: Tensor, asked: Tensor) -> dict[str, float]:
    """Scores on `asked` of a model that knows only how often each class is among `seen`."""
    shares = torch.bincount(seen.cpu(), minlength=10).double() / len(seen)
    guesses = asked.cpu() == int(shares.argmax())
    accuracy = guesses.double().mean().item()
    # A class that training never shows costs as much as one that it shows half a time.
    costs = -shares.clamp(min=0.5 / len(seen)).log()[asked.cpu()]
    return {
        "accuracy": accuracy,
        "error_percent": 100 * (1 - accuracy),
        "cross_entropy_nats": costs.mean().item(),
    }
