"""Who is timed on a case, each as a layer with the precision it runs in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from passnet.bench.cases import Case
from passnet.bench.loop import LoopRNN
from passnet.config.contender import BF16, FP16, OURS, TF32, ContenderName
from passnet.layers import GRU, LSTM

LOWER = {BF16: torch.bfloat16, FP16: torch.float16}
"""Lower precisions by their names."""
Among = Literal["everyone", "layers", "float32"]
"""Who is timed: the slow loops over time too, or all layers, or ours and torch.nn's in float32."""
STEPWISE = (f"{OURS} eager", f"{OURS} reference", "loop", "compiled loop")
"""Contenders that pay for every step in Python: timed fewer times."""


@dataclass(frozen=True)
class Contender:
    """A layer and how it is to be run."""

    name: str
    layer: Any
    dtype: torch.dtype = torch.float32
    tf32: bool = False

    @property
    def plain(self) -> bool:
        """Whether it computes in float32, in no faster mode."""
        return self.dtype == torch.float32 and not self.tf32

    @contextmanager
    def precision(self) -> Iterator[None]:
        """The matmul and cuDNN switches this contender runs under."""
        before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def contenders(case: Case, *, device: str, among: Among = "everyone") -> dict[str, Contender]:
    """Those of them who can run the case on this device, ours first.

    Ours and the loops have one set of weights, rounded where a precision is lower. Layers of
    torch.nn have other matrices, so they compute something else, from weights of their own.
    """
    ours = _ours(case, device)
    theirs = nn.GRU if case.cell == "gru" else nn.LSTM
    name = f"nn.{theirs.__name__}"
    sizes = {"input_size": case.m, "hidden_size": case.n, "device": device}
    found = [Contender(OURS, ours), Contender(name, theirs(**sizes))]
    if among != "float32":
        # On a CPU its first call says that oneDNN does not have it, which changes nothing here.
        warnings.filterwarnings("ignore", message="LSTM with projections is not supported with")
        projected = nn.LSTM(**sizes, proj_size=case.d)
        found.append(Contender(f"nn.LSTM(proj_size={case.d})", projected))
    if among != "float32" and device != "cpu":
        faster = theirs(**sizes)
        found.append(Contender(str(ContenderName(name, TF32)), faster, tf32=True))
        for precision, dtype in LOWER.items():
            of_ours, of_theirs = (str(ContenderName(layer, precision)) for layer in (OURS, name))
            found.append(Contender(of_ours, _ours(case, device).to(dtype), dtype))
            found.append(Contender(of_theirs, theirs(**sizes, dtype=dtype), dtype))
    if among == "everyone":
        found += [
            Contender(f"{OURS} {backend}", _ours(case, device, backend))
            for backend in ("eager", "reference")
        ]
        loop = LoopRNN(case, device=device).copy_from(ours)
        found.append(Contender("loop", loop))
        found.append(Contender("compiled loop", _compiled(LoopRNN(case, device=device), ours)))
    return {contender.name: contender for contender in found}


def states(layer: nn.Module, x: Tensor) -> Tensor:
    """The layer's outputs at all steps."""
    return layer(x)[0]


def gradients(layer: nn.Module, x: Tensor, grad: Tensor) -> Callable[[], list[Tensor]]:
    """Forward and backward to all parameters."""
    parameters = list(layer.parameters())

    def run() -> list[Tensor]:
        outputs = states(layer, x)
        return list(torch.autograd.grad(outputs, parameters, grad[..., : outputs.shape[-1]]))

    return run


def _ours(case: Case, device: str, backend: str = "auto") -> GRU | LSTM:
    torch.manual_seed(0)
    options = {"matrix": case.matrix, "device": device, "backend": backend}
    if case.cell == "lstm":
        return LSTM(case.m, case.n, **options)
    reset = "after" if case.reset == "after" else "before"
    return GRU(case.m, case.n, reset=reset, **options)


def _compiled(loop: LoopRNN, ours: GRU | LSTM) -> LoopRNN:
    """The loop with its step compiled: compiling the whole of it takes minutes at these lengths."""
    loop.copy_from(ours)
    loop.gru_step = torch.compile(loop.gru_step)
    loop.lstm_step = torch.compile(loop.lstm_step)
    return loop
