"""GRUs of passnet and torch.nn, each in PyTorch and as a program in ONNX Runtime, on the CPU.

Forward passes: of whole sequences, and of one step as in streaming. `export_onnx` holds every
program against PyTorch before it is timed; contenders take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import nn

import passnet
from passnet.training.machine import commit, machine, versions

SHAPES = ((128, 24), (1000, 64), (3298, 128))
"""Units and rank."""
FEATURES = 50
CALLS = ((100, 20), (100, 1), (1, 1))
"""Steps and sequences of a call; one step is called as in streaming."""
ROUNDS, AT_LEAST = 9, 0.2
"""Turns of each contender, and seconds that all calls of a turn take together."""

Work = Callable[[], object]


def in_pytorch(layer: nn.Module, given: tuple[torch.Tensor, ...]) -> Work:
    """A call of the layer; one step of a passnet layer is a `step`."""
    x, state = given
    if isinstance(layer, passnet.GRU) and len(x) == 1:
        return lambda: layer.step(x[0], state)
    return lambda: layer(x, state)


def in_onnx_runtime(layer: nn.Module, given: tuple[torch.Tensor, ...], folder: Path) -> Work:
    """A call of the program that the layer becomes for arguments of these sizes."""
    file = folder / "layer.onnx"
    signature = passnet.export_onnx(layer, given, file)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    fed = {name: part.numpy() for name, part in zip(signature.inputs, given, strict=True)}
    return lambda: session.run(None, fed)


def contenders(
    units: int, rank: int, given: tuple[torch.Tensor, ...], folder: Path
) -> Iterator[tuple[str, Work]]:
    """Each with its name."""
    ours = passnet.GRU(FEATURES, units, matrix=passnet.LowRankPlusDiagonal(rank)).eval()
    theirs = nn.GRU(FEATURES, units).eval()
    for name, layer in (("passnet.GRU", ours), ("nn.GRU", theirs)):
        yield f"{name} in PyTorch", in_pytorch(layer, given)
        yield f"{name} in ONNX Runtime", in_onnx_runtime(layer, given, folder)


@torch.no_grad()
def milliseconds(works: dict[str, Work]) -> dict[str, float]:
    """Of one call of each, the median over its turns."""
    counts, times = {}, {name: [] for name in works}
    for name, work in works.items():
        start, count = time.perf_counter(), 0
        while time.perf_counter() < start + AT_LEAST:
            work()
            count += 1
        counts[name] = count
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                work()
            times[name].append(1e3 * (time.perf_counter() - start) / counts[name])
    return {name: statistics.median(found) for name, found in times.items()}


def rows() -> list[dict[str, Any]]:
    """One for each shape, call and contender."""
    found = []
    with Progress(transient=True) as progress, tempfile.TemporaryDirectory() as folder:
        doing = progress.add_task("timing", total=len(SHAPES) * len(CALLS))
        for units, rank in SHAPES:
            for steps, batch in CALLS:
                torch.manual_seed(0)
                given = torch.randn(steps, batch, FEATURES), torch.randn(1, batch, units)
                shape = {"units": units, "rank": rank, "steps": steps, "batch": batch}
                works = dict(contenders(units, rank, given, Path(folder)))
                for name, value in milliseconds(works).items():
                    found.append({**shape, "contender": name, "milliseconds": value})
                progress.advance(doing)
    return found


def main() -> None:
    """Time everything, show it, and write it down where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the timings there")
    args = parser.parse_args()
    found = rows()
    names = list(dict.fromkeys(row["contender"] for row in found))
    table = Table("units", "rank", "steps", "batch", *names, title="milliseconds of a call")
    for first in range(0, len(found), len(names)):
        some = found[first : first + len(names)]
        shape = [str(some[0][key]) for key in ("units", "rank", "steps", "batch")]
        table.add_row(*shape, *(f"{row['milliseconds']:.3g}" for row in some))
    Console().print(table)
    if args.json is not None:
        record = {
            "machine": machine(torch.device("cpu")),
            "versions": versions() | {"onnxruntime": onnxruntime.__version__},
            "commit": commit(),
            "rows": found,
        }
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
