"""The paper's RMSProp, and every optimiser of an experiment by its value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import torch
from torch import Tensor, nn

from passnet.config import Adam, AdamW, Optimiser, RmsProp


@final
class RMSProp(torch.optim.Optimizer):
    """a = decay a + (1 - decay) g^2, p = p - lr g / sqrt(a + epsilon), a starting above zero.

    `torch.optim.RMSprop` starts `a` at 0 and adds epsilon after the root. No step waits for the
    device, so that a CUDA graph may hold it; `lr` is then a tensor. Where `a` has underflowed to
    zero together with the gradient, the step is its limit, 0.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float | Tensor,
        *,
        decay: float = 0.9,
        epsilon: float = 0.0,
        accumulator_start: float = 1e-3,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {
            "lr": lr,
            "decay": decay,
            "epsilon": epsilon,
            "accumulator_start": accumulator_start,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        """One update of all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step(group)
        return loss

    def _step(self, group: dict) -> None:
        parameters = [p for p in group["params"] if p.grad is not None]
        if not parameters:
            return
        gradients = [p.grad for p in parameters]
        accumulators = [self._accumulator(p, group["accumulator_start"]) for p in parameters]
        if group["weight_decay"]:
            gradients = torch._foreach_add(gradients, parameters, alpha=group["weight_decay"])
        torch._foreach_mul_(accumulators, group["decay"])
        torch._foreach_addcmul_(accumulators, gradients, gradients, value=1 - group["decay"])
        roots = torch._foreach_add(accumulators, group["epsilon"])
        torch._foreach_clamp_min_(roots, torch.finfo(parameters[0].dtype).tiny)
        torch._foreach_sqrt_(roots)
        steps = torch._foreach_div(gradients, roots)
        torch._foreach_mul_(steps, group["lr"])
        torch._foreach_sub_(parameters, steps)

    def _accumulator(self, parameter: Tensor, start: float) -> Tensor:
        state = self.state[parameter]
        if "accumulator" not in state:
            state["accumulator"] = torch.full_like(parameter, start)
        return state["accumulator"]


def build_optimiser(
    optimiser: Optimiser, parameters: Iterable[nn.Parameter], *, capturable: bool = False
) -> torch.optim.Optimizer:
    """The optimiser an experiment names; `capturable` keeps its rate and counters on the device."""
    parameters = list(parameters)
    rate: float | Tensor = optimiser.learning_rate
    if capturable:
        rate = torch.tensor(rate, device=parameters[0].device)
    match optimiser:
        case RmsProp():
            return RMSProp(
                parameters,
                rate,
                decay=optimiser.decay,
                epsilon=optimiser.epsilon,
                accumulator_start=optimiser.accumulator_start,
                weight_decay=optimiser.weight_decay,
            )
        case Adam() | AdamW():
            kind = torch.optim.Adam if isinstance(optimiser, Adam) else torch.optim.AdamW
            return kind(
                parameters,
                rate,
                betas=optimiser.betas,
                eps=optimiser.epsilon,
                weight_decay=optimiser.weight_decay,
                # In a graph one launch instead of a dozen passes over all parameters.
                foreach=not capturable,
                fused=capturable,
                capturable=capturable,
            )


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate` from the next step on, without waiting for the device."""
    for group in optimiser.param_groups:
        if not isinstance(group["lr"], Tensor):
            group["lr"] = rate
        elif group.get("rate") != rate:
            group["lr"].fill_(rate)
            group["rate"] = rate
