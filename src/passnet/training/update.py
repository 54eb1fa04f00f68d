"""One update of the parameters: forward, backward, treatment of the gradient, step, row norms."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor

from passnet.config import Experiment
from passnet.layers import clip_row_norms_
from passnet.tasks.task import Batch, Task
from passnet.training.clipping import treat_gradients_
from passnet.training.distributed import World
from passnet.training.model import Network, State

Carried = list[State | None]


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager:
    """The context a network runs in."""
    if precision == "float32":
        return contextlib.nullcontext()
    # Cached casts would be freed between the captures and replays of a CUDA graph.
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


@final
class Meters:
    """Sums over updates that stay on the device until somebody reads them.

    `loss` and `norm` are sums since the last reset, `broken` counts gradients that were not finite
    since then; `taken` counts all updates and `first_broken` is the first bad one, or 0.
    """

    NAMES = ("loss", "norm", "broken", "taken", "first_broken")

    def __init__(self, device: torch.device) -> None:
        self.tensors = {
            name: torch.zeros((), dtype=torch.float64, device=device) for name in self.NAMES
        }

    @torch.no_grad()
    def add(self, loss: Tensor, norm: Tensor, broken: Tensor) -> None:
        """Take in one update."""
        meters = self.tensors
        meters["loss"] += loss
        meters["norm"] += norm.masked_fill(broken | ~torch.isfinite(norm), 0.0)
        meters["broken"] += broken
        meters["taken"] += 1
        news = broken & (meters["first_broken"] == 0)
        meters["first_broken"].copy_(torch.where(news, meters["taken"], meters["first_broken"]))

    def reset(self) -> None:
        """Begin new sums."""
        for name in ("loss", "norm", "broken"):
            self.tensors[name].zero_()


@final
class Update:
    """Called with the pieces of one batch and the states they begin from; returns the last ones."""

    def __init__(
        self,
        network: Network,
        task: Task,
        optimiser: torch.optim.Optimizer,
        *,
        experiment: Experiment,
        world: World,
        meters: Meters,
    ) -> None:
        self.network = network
        self.task = task
        self.optimiser = optimiser
        self.world = world
        self.meters = meters
        self.precision = experiment.precision
        self.clipping = experiment.clipping
        self.nan_policy: Literal["stop"] | float = experiment.nan_policy
        self.bounds_rows = experiment.model.max_row_norm is not None
        self.parameters = [p for p in network.parameters() if p.requires_grad]

    def __call__(self, pieces: Sequence[Batch], carried: Carried) -> Carried:
        self.optimiser.zero_grad(set_to_none=True)
        losses, states = [], []
        for batch, state in zip(pieces, carried, strict=True):
            loss, state = self._loss(batch, state)
            (loss / len(pieces)).backward()
            losses.append(loss.detach())
            states.append(state)
        self.world.mean_([p.grad for p in self.parameters if p.grad is not None])
        norm, broken = treat_gradients_(self.parameters, self.clipping, nan_policy=self.nan_policy)
        self.optimiser.step()
        if self.bounds_rows:
            clip_row_norms_(self.network)
        self.meters.add(torch.stack(losses).double().mean(), norm.double(), broken)
        return states

    def _loss(self, batch: Batch, state: State | None) -> tuple[Tensor, State]:
        with autocast(self.precision, batch.inputs.device):
            outputs, final = self.network(batch.inputs, state, batch.lengths)
        loss = self.task.loss(outputs, batch)
        penalty = self.task.penalty(self.network.output.weight)
        if penalty is not None:
            loss = loss + penalty
        return loss, tuple(part.detach() for part in final)
