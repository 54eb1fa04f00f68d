"""Where the time of a training update goes on a GPU: microseconds of each kernel, for presets.

Captured forms only: batches are visited until every padded length among them has its CUDA graph.
"""

from __future__ import annotations

import argparse
import contextlib
import time

import torch
from torch.profiler import ProfilerActivity, profile

from passnet.experiments import get, names
from passnet.training.assembly import Options, assemble
from passnet.training.distributed import World
from passnet.training.graph import WARM_UP


class Updates:
    """Some batches of a preset, trained on over and over."""

    def __init__(self, name: str, *, batches: int, data_dir: str | None) -> None:
        world = World(torch.device("cuda", 0))
        self.parts = assemble(get(name), options=Options(data_dir=data_dir), world=world)
        self.pieces = [self.parts.feed.pieces(index) for index in range(batches)]
        self.taken = 0

    def run(self) -> None:
        """One update on each of the batches."""
        masks = self.parts.masks
        for pieces in self.pieces:
            with masks.of(self.taken) if masks else contextlib.nullcontext():
                self.parts.step(pieces, [None] * len(pieces))
            self.taken += 1
        torch.cuda.synchronize()


def show(name: str, *, batches: int, rows: int, data_dir: str | None) -> None:
    """Print one preset's update: its time, and its kernels by theirs."""
    updates = Updates(name, batches=batches, data_dir=data_dir)
    for _ in range(WARM_UP + 1):
        updates.run()
    start = time.perf_counter()
    updates.run()
    passed = (time.perf_counter() - start) / batches
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        updates.run()
    kernels = sorted(seen.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    busy = sum(kernel.self_device_time_total for kernel in kernels) / batches
    shapes = [pieces[0].inputs.shape for pieces in updates.pieces]
    steps = sum(shape[0] for shape in shapes) / batches
    print(f"{name}: {1e6 * passed:.0f} us an update, {busy:.0f} in kernels; {steps:.0f} steps")
    for kernel in kernels[:rows]:
        each = kernel.self_device_time_total / batches
        print(f"{each:9.1f} us {kernel.count / batches:6.1f} times {kernel.key[:90]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shown = "as `passnet list` shows them"
    parser.add_argument("presets", nargs="+", metavar="PRESET", choices=names(), help=shown)
    parser.add_argument("--batches", type=int, default=30, help="batches that are timed (30)")
    parser.add_argument("--rows", type=int, default=20, help="kernels that are listed (20)")
    parser.add_argument("--data-dir", help="look here for data files before anywhere else")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device, and it is one whose time is told")
    for name in arguments.presets:
        show(name, batches=arguments.batches, rows=arguments.rows, data_dir=arguments.data_dir)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
