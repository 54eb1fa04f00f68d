"""Where a step of the large CUDA scan goes: cycles of one warp between marks in the kernels' text.

The marks are put in here, before a kernel is compiled; the sources know nothing of them. Low ranks
only, and of reset-before both exchanges together.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from cuda_scan import describe, scan_pass, timed

# Cases are those of the GPU's tests.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from gpu.scan_cases import Case, cast, make

from passnet.ops.cuda import large, large_plan
from passnet.ops.cuda.chip import Chip, gpu
from passnet.ops.cuda.launches import Launches

# Each phase ends behind (or before) the one place where this text stands.
PHASES = {
    "gates, loads": ("before", "publish(false);|publish(exchange1, 0, NP1, v);"),
    "operand published": ("behind", "publish(false);|publish(exchange1, 0, NP1, v);"),
    "next loads asked for": ("before", "exchange1.run(xs, work, spare, party, SUMMARY(0),"),
    "projection, shares sent": (
        "behind", "project.template run<MANY>(wp, x, x_range, part, 0, turns);"),
    "stores that waited": ("before", "P::template reduce<MANY>(base, base + SHARES,"),
    "wait for shares": ("before", "if (LANES > 1) {\n        if (lane < LANES) reinterpret_cast"),
    "sum, send it": (
        "behind", "P::template reduce<MANY>(base, base + SHARES, spare, block, turns, summary);"),
    "wait for z, stage it": (
        "behind", "Staged<ZG, K, KC>::template run<MANY>(z, 0, staged, piece, turns, range);"),
    "expansion": ("behind", "y[r][n][i]);\n        }\n      }\n    }\n"),
    "results into place": (
        "behind", "expand.template run<MANY>(we, base + SHARES, work, z_range, turns);"),
}  # fmt: skip
PARAMETERS = "int T, int B, int b0) {"
HEAD = """
constexpr int PHASES = %d;
__shared__ unsigned marked[PHASES + 1];
__device__ __forceinline__ void mark(int phase) {
  if (threadIdx.x) return;
  const unsigned now = clock();
  marked[phase] += now - marked[PHASES];
  marked[PHASES] = now;
}
"""
FIRST = """
  if (threadIdx.x == 0) {
    for (int i = 0; i < PHASES; i++) marked[i] = 0;
    marked[PHASES] = clock();
  }
"""
LAST = """
  if (threadIdx.x == 0 && blockIdx.x == 0)
    for (int i = 0; i < PHASES; i++) phases[i] = marked[i];
}
"""


def with_marks(source: str) -> str:
    """The text of one pass, whose parameters are followed by `unsigned* phases`."""

    def only(choices: str) -> str:
        found = [text for text in choices.split("|") if source.count(text) == 1]
        if len(found) != 1:
            raise ValueError(f"not one place for a mark: {choices!r}")
        return found[0]

    for index, (where, choices) in enumerate(PHASES.values()):
        text, mark = only(choices), f"mark({index});"
        source = source.replace(text, f"{mark} {text}" if where == "before" else f"{text} {mark}")
    parameters = only(PARAMETERS)
    source = source.replace(parameters, parameters.replace(")", ", unsigned* phases)") + FIRST)
    return HEAD % len(PHASES) + source.rstrip().removesuffix("}") + LAST


class Marked(Chip):
    """A GPU whose kernels count the cycles of their phases."""

    def __init__(self, on: Chip) -> None:
        self.on, self.processors, self.shared_limit = on, on.processors, on.shared_limit
        self.cycles = torch.zeros(len(PHASES), dtype=torch.int32, device="cuda")

    def kernel(self, source: str, name: str, *, options: tuple[str, ...], shared: int) -> Launches:
        made = self.on.kernel(with_marks(source), name, options=options, shared=shared)
        cycles = self.cycles

        class Counting(Launches):
            def start(self, grid, threads, arguments, cooperative) -> None:
                made.start(grid, threads, [*arguments, cycles], cooperative)

        return Counting()


def show(case: Case, tile: int | None) -> None:
    """Print the phases of both passes of a case, and what a step takes with and without marks."""
    chip, data = Marked(gpu(0)), cast(make(case), case.dtype)
    limits = {"processors": chip.processors, "shared_limit": chip.shared_limit, "tile": tile}
    columns = []
    for backward in (False, True):
        layout = large_plan.plan(describe(case), backward=backward, **limits)
        if layout is None:
            print(f"{case} does not fit groups of {tile} sequences")
            return
        runs = [scan_pass(case, data, backward, large, chip=on) for on in (gpu(0), chip)]
        plain, counted = (timed(lambda run=run, p=layout: run(p)) for run in runs)
        columns.append([cycles / case.steps for cycles in chip.cycles.tolist()])
        which = "backward" if backward else "forward"
        print(
            f"{case.cell} {case.n}/{case.d} {case.dtype} {which}: {layout.blocks} blocks for "
            f"{layout.tile} sequences, {1000 * plain / case.steps:.2f} us a step, "
            f"{1000 * counted / case.steps:.2f} with marks"
        )
    for name, pair in zip(PHASES, zip(*columns, strict=True), strict=True):
        print(f"{name:>24} {pair[0]:8.0f} {pair[1]:8.0f}")
    print(f"{'sum':>24} {sum(columns[0]):8.0f} {sum(columns[1]):8.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", default="gru_after", choices=["gru_after", "gru_before", "lstm"])
    parser.add_argument("--units", type=int, default=3298, help="units of the layer (3298)")
    parser.add_argument("--rank", type=int, default=128, help="rank of its matrices (128)")
    parser.add_argument("--tile", type=int, choices=[8, 16, 32], help="sequences of a group")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device, and it is one whose cycles are counted")
    dtype = getattr(torch, arguments.dtype)
    case = Case(arguments.cell, arguments.units, arguments.rank, 128, 32, dtype=dtype)
    show(case, arguments.tile)


if __name__ == "__main__":
    main()
