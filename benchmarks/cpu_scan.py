"""The compiled CPU scan beside torch.nn.GRU at the same state size: ratios within one run.

Contenders take turns and their medians are compared, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import passnet
from passnet.config.matrix import LowRankPlusDiagonal
from passnet.ops.cpu import installed

SHAPES = ((128, 24, 200, 20), (256, 24, 200, 20), (1000, 64, 64, 32), (3298, 128, 8, 32))
INPUTS = 10


def take_turns(
    contenders: dict[str, Callable[[], object]], clock: Callable[[], float], *, rounds: int
) -> dict[str, float]:
    """Median milliseconds of each, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            start = clock()
            run()
            if turn:
                times[name].append((clock() - start) * 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def layers(units: int, rank: int) -> dict[str, torch.nn.Module]:
    matrix = LowRankPlusDiagonal(rank)
    return {
        "nn.GRU": torch.nn.GRU(INPUTS, units),
        "after": passnet.GRU(INPUTS, units, matrix=matrix, backend="cpu"),
        "before": passnet.GRU(INPUTS, units, matrix=matrix, reset="before", backend="cpu"),
    }


def check(units: int, rank: int) -> None:
    """No time is worth printing for a wrong answer."""
    layer = passnet.GRU(INPUTS, units, matrix=LowRankPlusDiagonal(rank), backend="cpu")
    x = torch.randn(3, 2, INPUTS)
    got, _ = layer(x)
    layer.backend = "reference"
    wanted, _ = layer(x)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def forward(layer: torch.nn.Module, x: Tensor, _: Tensor) -> None:
    with torch.no_grad():
        layer(x)


def training(layer: torch.nn.Module, x: Tensor, arriving: Tensor) -> None:
    layer.zero_grad()
    layer(x)[0].backward(arriving)


def whole_sequences(clock: Callable[[], float], rounds: int) -> list[dict]:
    rows = []
    for units, rank, steps, batch in SHAPES:
        check(units, rank)
        x, arriving = torch.randn(steps, batch, INPUTS), torch.randn(steps, batch, units)
        for name, run in (("forward", forward), ("forward+backward", training)):
            contenders = {
                key: partial(run, layer, x, arriving) for key, layer in layers(units, rank).items()
            }
            for key, found in take_turns(contenders, clock, rounds=rounds).items():
                rows.append(
                    {"n": units, "d": rank, "T": steps, "B": batch, "pass": name,
                     "contender": key, "milliseconds": found}
                )  # fmt: skip
    return rows


@torch.no_grad()
def one_step(
    clock: Callable[[], float], rounds: int, *, units: int = 1000, rank: int = 64, repeat: int = 100
) -> list[dict]:
    """A streaming step: each contender runs `repeat` of them, as a stream does."""
    x, state = torch.randn(1, INPUTS), torch.zeros(1, units)
    cell = torch.nn.GRUCell(INPUTS, units)
    contenders: dict[str, Callable[[], object]] = {
        "nn.GRU": lambda: [cell(x, state) for _ in range(repeat)]
    }
    for key, layer in layers(units, rank).items():
        if key != "nn.GRU":
            contenders[key] = lambda layer=layer: [
                layer.step(x, state.unsqueeze(0)) for _ in range(repeat)
            ]
    return [
        {"n": units, "d": rank, "T": 1, "B": 1, "pass": "step", "contender": key,
         "milliseconds": found / repeat}
        for key, found in take_turns(contenders, clock, rounds=rounds).items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="rows instead of a table")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count one thread's processor time instead of the wall's: for busy machines",
    )
    given = parser.parse_args()
    library = installed()
    if isinstance(library, str):
        raise SystemExit(library)
    clock = time.process_time if given.processor_time else time.perf_counter
    torch.set_num_threads(1 if given.processor_time else given.threads)
    torch.manual_seed(0)
    rows = whole_sequences(clock, given.rounds) + one_step(clock, 10 * given.rounds)
    if given.json:
        print(json.dumps(rows))
        return
    print(f"{library.instructions}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print("    n    d    T   B pass              nn.GRU ms          after         before")
    for at in range(0, len(rows), 3):
        base, *ours = rows[at : at + 3]
        cells = "".join(
            f"{r['milliseconds']:>9.3f}{base['milliseconds'] / r['milliseconds']:>5.1f}x"
            for r in ours
        )
        shape = f"{base['n']:>5} {base['d']:>4} {base['T']:>4} {base['B']:>3}"
        print(f"{shape} {base['pass']:17}{base['milliseconds']:>10.3f}{cells}")


if __name__ == "__main__":
    main()
