"""What a call costs the host on a GPU.

First with sequences so short that the GPU is never waited for, then with those of the copy task,
part by part, beside a function that does nothing but ask the GPU to wait as long.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

import passnet
from passnet.ops import direct

STEPS, BATCH, UNITS = 4, 20, 128
IN_A_ROW, REPEATS = 200, 5
COPY_STEPS, COPY_FEATURES = 520, 10
WAITS = 530_000, 560_000
"""Cycles that both passes of the copy layer keep an H200 busy for, about."""


def microseconds(work: Callable[[], object]) -> float:
    """Of one call among many in a row, the median of some rounds."""
    for _ in range(30):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(IN_A_ROW):
            work()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - start) / IN_A_ROW)
    return statistics.median(times)


def works(layer: nn.Module, features: int) -> dict[str, Callable[[], object]]:
    """The calls that are timed, by name."""
    x = torch.randn(STEPS, BATCH, features, device="cuda")
    grad = torch.randn(STEPS, BATCH, UNITS, device="cuda")
    parameters = list(layer.parameters())

    def without_gradients() -> object:
        with torch.no_grad():
            return layer(x)

    def both() -> object:
        return torch.autograd.grad(layer(x)[0], parameters, grad)

    def one_thread() -> object:
        with torch.autograd.set_multithreading_enabled(False):
            return both()

    return {
        "forward": without_gradients,
        "forward, to be differentiated": lambda: layer(x),
        "forward and backward": both,
        "the same in one thread": one_thread,
    }


def layers() -> dict[str, tuple[nn.Module, int]]:
    """Who is called, and on how many features."""
    rank = passnet.LowRankPlusDiagonal
    return {
        "GRU, rank 50": (passnet.GRU(10, UNITS, matrix=rank(50)), 10),
        "GRU reset before, rank 50": (passnet.GRU(10, UNITS, matrix=rank(50), reset="before"), 10),
        "GRU, rank 24": (passnet.GRU(1, UNITS, matrix=rank(24)), 1),
        "GRU, rank 24, dropout": (passnet.GRU(1, UNITS, matrix=rank(24), dropout_state=0.1), 1),
        "GRU, rank 24, learned start": (
            passnet.GRU(1, UNITS, matrix=rank(24), learn_initial_state=True),
            1,
        ),
        "LSTM, rank 24": (passnet.LSTM(1, UNITS, matrix=rank(24)), 1),
        "nn.GRU": (nn.GRU(10, UNITS), 10),
        "nn.LSTM": (nn.LSTM(1, UNITS), 1),
    }


marks: list[int] = []
"""When a backward pass began and ended, of a call that `parts` watches."""


class Waits(torch.autograd.Function):
    """As much of a layer as no Python can leave out: its tensors, and a wait instead of kernels."""

    @staticmethod
    def forward(ctx, x: Tensor, *parameters: Tensor) -> Tensor:
        states = x.new_empty((*x.shape[:2], UNITS))
        torch.cuda._sleep(WAITS[0])
        ctx.save_for_backward(*parameters)
        return states

    @staticmethod
    def backward(ctx, *grads):
        marks.append(time.perf_counter_ns())
        torch.cuda._sleep(WAITS[1])
        found = [torch.empty_like(tensor) for tensor in ctx.saved_tensors]
        marks.append(time.perf_counter_ns())
        return None, *found


class Waiting(nn.Module):
    """A layer that waits; its parameters are those of another."""

    def __init__(self, like: nn.Module) -> None:
        super().__init__()
        self.like = like

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return Waits.apply(x, *self.like.parameters()), None


def watch_backward() -> None:
    """Have every backward pass of our layers leave its marks."""
    inner = direct._Node.backward

    def backward(ctx, *grads):
        marks.append(time.perf_counter_ns())
        found = inner(ctx, *grads)
        marks.append(time.perf_counter_ns())
        return found

    direct._Node.backward = staticmethod(backward)


def parts(layer: nn.Module) -> list[float]:
    """Microseconds of a call's forward, until its backward begins, of that, until it is back; all.

    The last is the time of a call among many, which may be the GPU's.
    """
    x = torch.randn(COPY_STEPS, BATCH, COPY_FEATURES, device="cuda")
    grad = torch.randn(COPY_STEPS, BATCH, UNITS, device="cuda")
    parameters = list(layer.parameters())

    def timed() -> list[int]:
        marks.clear()
        start = time.perf_counter_ns()
        states = layer(x)[0]
        between = time.perf_counter_ns()
        torch.autograd.grad(states, parameters, grad)
        times = [start, between, *marks, time.perf_counter_ns()]
        return [after - before for before, after in pairwise(times)]

    for _ in range(30):
        timed()
    torch.cuda.synchronize()
    start = time.perf_counter()
    rows = [timed() for _ in range(IN_A_ROW)]
    torch.cuda.synchronize()
    call = 1e6 * (time.perf_counter() - start) / IN_A_ROW
    return [*(statistics.median(column) / 1e3 for column in zip(*rows, strict=True)), call]


def show_parts() -> None:
    """Print the parts of a copy call, in two threads and in one."""
    rank = passnet.LowRankPlusDiagonal(50)
    ours = passnet.GRU(COPY_FEATURES, UNITS, matrix=rank, device="cuda")
    before = passnet.GRU(COPY_FEATURES, UNITS, matrix=rank, reset="before", device="cuda")
    watch_backward()
    print(f"\nmicroseconds of the parts of a call, {COPY_STEPS} steps of {BATCH} sequences")
    print(f"{'':42} forward  to backward  backward   back   call")
    named = {"GRU, rank 50": ours, "GRU reset before, rank 50": before, "waiting": Waiting(ours)}
    for name, layer in named.items():
        for threads, several in (("two threads", True), ("one thread", False)):
            with torch.autograd.set_multithreading_enabled(several):
                cells = parts(layer)
            print(f"{name:28} {threads:12} " + " ".join(f"{cell:9.0f}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device, and it is its host whose time is told")
    print(f"microseconds of a call, {STEPS} steps of {BATCH} sequences, {UNITS} units")
    for name, (layer, features) in layers().items():
        for what, work in works(layer.cuda(), features).items():
            print(f"{name:28} {what:32} {microseconds(work):8.0f}")
    show_parts()


if __name__ == "__main__":
    main()
