"""What is checked before anything is timed: that ours compute what they are timed for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from passnet.bench.accuracy import errors
from passnet.bench.cases import Case
from passnet.bench.contenders import Contender, gradients, states
from passnet.bench.loop import LoopRNN
from passnet.config.contender import OURS, read_name
from passnet.layers import GRU, LSTM

Numbers = Mapping[str, Tensor]
STEPS, FEWEST, ROWS = 64, 8, 512
"""All sequences of a case are checked, over so many steps at most and at least, and otherwise as
many as make so many rows: in sums over thousands a library's order of adding would decide."""
LUCK = 2
"""One draw is judged where the tests judge medians of many, so it may be off by twice as much."""


class Wrong(RuntimeError):
    """A contender computes something else, so its time would mean nothing."""


def check(case: Case, found: Mapping[str, Contender], x: Tensor, grad: Tensor) -> None:
    """Raise for the first contender of ours that is off by twice what the accuracy rule allows.

    The truth is the plain loop over time, backend "reference", in float64; it has to agree with
    `LoopRNN`, which shares no code with it. Weights are those of "passnet", rounded to the
    precision of a contender. Other ways to run one (graphs, one thread) run the same kernels.
    """
    steps = min(len(x), STEPS, max(FEWEST, ROWS // case.B))
    ours = found[OURS].layer
    plain: dict[torch.dtype, tuple[Numbers, Numbers]] = {}
    for name, contender in found.items():
        if not read_name(name).ours:
            continue
        dtype = contender.dtype
        given = x[:steps].to(dtype), grad[:steps].to(dtype)
        with contender.precision():
            if dtype not in plain:
                plain[dtype] = _plain(case, ours, *given)
            truth, reference = plain[dtype]
            _judge(f"{case.label}: {name}", numbers(contender.layer, *given), reference, truth)


def numbers(layer: GRU | LSTM, x: Tensor, grad: Tensor) -> dict[str, Tensor]:
    """All that a layer computes, by name: as it is timed, and the input's gradient beside that."""
    with torch.no_grad():
        found = {"the output": states(layer, x), "the output of a stream": _streamed(layer, x)}
    names = [_gradient(name) for name, _ in layer.named_parameters()]
    found |= zip(names, gradients(layer, x, grad)(), strict=True)
    x = x.clone().requires_grad_()
    output = states(layer, x)
    found["the output with gradients to come"] = output.detach()
    return found | {_gradient("the input"): torch.autograd.grad(output, x, grad)[0]}


def _gradient(name: str) -> str:
    return f"the gradient of {name}"


def _streamed(layer: GRU | LSTM, x: Tensor) -> Tensor:
    """The first sequence alone, step by step."""
    state: Any = None  # as it comes from the layer, whichever of the two it is
    outputs = []
    for step in x[:, :1]:
        output, state = layer.step(step, state)
        outputs.append(output)
    return torch.stack(outputs)


def _plain(case: Case, ours: GRU | LSTM, x: Tensor, grad: Tensor) -> tuple[Numbers, Numbers]:
    """(the truth, the same from the same weights in the precision of x)."""
    rounded = copy.deepcopy(ours).to(x.dtype)
    rounded.backend = "reference"
    exact, wide = copy.deepcopy(rounded).double(), (x.double(), grad.double())
    truth = numbers(exact, *wide)
    _confirm(case, exact, truth, *wide)
    return truth, numbers(rounded, x, grad)


def _confirm(case: Case, exact: GRU | LSTM, truth: Numbers, x: Tensor, grad: Tensor) -> None:
    """Raise where somebody else's loop, in float64 too, does not agree with the truth."""
    loop = LoopRNN(case, device=str(x.device)).double()
    x = x.clone().requires_grad_()
    tensors = {"the input": x, **dict(exact.named_parameters())}
    output = functional_call(loop, loop.weights_of(exact), (x,))[0]
    found = torch.autograd.grad(output, list(tensors.values()), grad)
    theirs = {"the output": output.detach()}
    theirs |= zip(map(_gradient, tensors), found, strict=True)
    for what, value in theirs.items():
        off = errors(truth[what], reference=value, truth=truth[what])
        if not off.measurable:
            raise Wrong(
                f"{case.label}: {what} by backend 'reference' and by a loop of PyTorch's own "
                f"modules, both in float64, differ by {off.reference:.1e} (rms, of "
                f"{off.scale:.1e}), so nothing was timed"
            )


def _judge(label: str, got: Numbers, reference: Numbers, truth: Numbers) -> None:
    """Raise for the first tensor that is less accurate than the rule allows."""
    for what, exact in truth.items():
        off = errors(got[what], reference=reference[what], truth=exact)
        dtype = str(reference[what].dtype).removeprefix("torch.")
        beside = f"backend 'reference' in {dtype}"
        against = f"against float64 (rms, of {off.scale:.1e}), so nothing was timed"
        if not off.measurable:
            raise Wrong(
                f"{label}: {what} by {beside}, the yardstick, is off by {off.reference:.1e} "
                f"{against}"
            )
        if not off.got <= LUCK * off.allowed:
            raise Wrong(
                f"{label}: {what} is off by {off.got:.1e} and by {beside}, from the same weights, "
                f"by {off.reference:.1e}, {against}"
            )
