"""What a call costs the host on a GPU: sequences so short that the GPU is never waited for."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import passnet

STEPS, BATCH, UNITS = 4, 20, 128
IN_A_ROW, REPEATS = 200, 5


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
        "LSTM, rank 24": (passnet.LSTM(1, UNITS, matrix=rank(24)), 1),
        "nn.GRU": (nn.GRU(10, UNITS), 10),
        "nn.LSTM": (nn.LSTM(1, UNITS), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device, and it is its host whose time is told")
    print(f"microseconds of a call, {STEPS} steps of {BATCH} sequences, {UNITS} units")
    for name, (layer, features) in layers().items():
        for what, work in works(layer.cuda(), features).items():
            print(f"{name:28} {what:32} {microseconds(work):8.0f}")


if __name__ == "__main__":
    main()
