"""Runs every CUDA kernel on a few steps, to be watched by a tool that looks for races.

compute-sanitizer --tool racecheck --error-exitcode 1 python benchmarks/cuda_race.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor, nn

import passnet

STEPS, BATCH, FEATURES = 6, 5, 10
WIDE = 24
"""So many features that tensor cores form what they give to many units."""
LENGTHS = [6, 6, 3, 2, 1]
PLUS = passnet.LowRankPlusDiagonal


def layers() -> Iterator[tuple[str, nn.Module, dict]]:
    """(name, layer, further arguments of a call) for every kind of scan and way to lay it out."""
    kinds = {
        "GRU after": (passnet.GRU, {"reset": "after"}),
        "GRU before": (passnet.GRU, {"reset": "before"}),
        "LSTM": (passnet.LSTM, {}),
    }
    sizes = {
        "small": (96, {"matrix": PLUS(8), "dropout_state": 0.3}),
        "small, tied": (96, {"matrix": passnet.LowRank(5, tied=True), "zoneout": 0.1}),
        "multiplied out": (128, {"matrix": PLUS(50)}),
        "dense": (64, {}),
        "large": (900, {"matrix": PLUS(20), "dropout_state": 0.3}),
        "large, dense": (700, {}),
        "large, tied": (1100, {"matrix": PLUS(16, tied=True)}),
    }
    for kind, (layer, options) in kinds.items():
        for size, (units, more) in sizes.items():
            yield f"{kind}, {size}", layer(FEATURES, units, **options, **more), {}
            wide = layer(WIDE, units, **options, **more)
            yield f"{kind}, {size}, wide inputs and lengths", wide, {"lengths": LENGTHS}


def run(name: str, layer: nn.Module, x: Tensor, **words) -> None:
    """Forwards and backwards, so often that the last call is one repeated."""
    for _ in range(3):
        output = layer(x, **words)
        output = output[0] if isinstance(output, tuple) else output
        output.float().square().sum().backward()
    torch.cuda.synchronize()
    print(f"{name}, {str(x.dtype).removeprefix('torch.')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device, and it is its kernels that are run")
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        for name, layer, words in layers():
            layer = layer.to("cuda", dtype)
            x = torch.randn(STEPS, BATCH, layer.input_size, device="cuda", dtype=dtype)
            run(name, layer, x, **words)
            symbols = torch.randint(layer.input_size, (STEPS, BATCH), device="cuda")
            run(name, layer, symbols, **words)
    run("uRNN", passnet.UnitaryRNN(FEATURES, 64).cuda(), torch.randn(STEPS, BATCH, FEATURES).cuda())
    highway = passnet.Highway(64, 3, matrix=PLUS(8), batch_norm=True).cuda()
    run("Highway", highway, torch.randn(40, 64).cuda())


if __name__ == "__main__":
    main()
