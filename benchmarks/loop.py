"""How much the hand-derived backward saves against an autograd loop, side by side in one run.

Contenders, forward and backward of one low-rank-plus-diagonal GRU layer: the loop a PyTorch user
would write, passnet's own plain loop (`reference`), passnet's `eager` backend, and torch.nn.GRU
of the same state size. Gradients are compared before anything is timed.

    python benchmarks/loop.py [--device cuda] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import passnet

SHAPES = [(128, 24, 200, 20), (256, 24, 200, 20), (1000, 64, 64, 32)]


class LoopGRU(nn.Module):
    """The same layer as most people write it: one module for each product, a list of states."""

    def __init__(self, inputs: int, size: int, rank: int, reset: str) -> None:
        super().__init__()
        self.reset = reset
        self.inputs = nn.ModuleList(nn.Linear(inputs, size) for _ in range(3))
        self.project = nn.ModuleList(nn.Linear(size, rank, bias=False) for _ in range(3))
        self.expand = nn.ModuleList(nn.Linear(rank, size, bias=False) for _ in range(3))
        self.diagonal = nn.ParameterList(torch.zeros(size) for _ in range(3))

    def recurrent(self, gate: int, h: Tensor) -> Tensor:
        return self.expand[gate](self.project[gate](h)) + self.diagonal[gate] * h

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[1], self.diagonal[0].shape[0])
        driven = [layer(x) for layer in self.inputs]
        states = []
        for t in range(x.shape[0]):
            r = torch.sigmoid(driven[0][t] + self.recurrent(0, h))
            u = torch.sigmoid(driven[1][t] + self.recurrent(1, h))
            if self.reset == "after":
                c = torch.tanh(driven[2][t] + r * self.recurrent(2, h))
            else:
                c = torch.tanh(driven[2][t] + self.recurrent(2, r * h))
            h = (1 - u) * c + u * h
            states.append(h)
        return torch.stack(states)

    @torch.no_grad()
    def copy_from(self, layer: passnet.GRU) -> LoopGRU:
        cell = layer.cells[0]
        for gate in range(3):
            self.inputs[gate].weight.copy_(cell.input_weight[gate])
            self.inputs[gate].bias.copy_(cell.bias[gate])
            self.project[gate].weight.copy_(cell.recurrent.project[gate])
            self.expand[gate].weight.copy_(cell.recurrent.expand[gate])
            self.diagonal[gate].copy_(cell.recurrent.diagonal[gate])
        return self


def contenders(n: int, d: int, reset: str, device: str) -> dict[str, nn.Module]:
    matrix = passnet.LowRankPlusDiagonal(d)
    layers = {
        name: passnet.GRU(8, n, matrix=matrix, reset=reset, backend=name, device=device)
        for name in ("eager", "reference")
    }
    layers["reference"].load_state_dict(layers["eager"].state_dict())
    loop = LoopGRU(8, n, d, reset).to(device).copy_from(layers["eager"])
    return {"loop": loop, **layers, "nn.GRU": nn.GRU(8, n, device=device)}


def run(layer: nn.Module, x: Tensor, grad: Tensor) -> list[Tensor]:
    found = layer(x)
    states = found[0] if isinstance(found, tuple) else found
    return list(torch.autograd.grad(states, [x, *layer.parameters()], grad))


def check_equal(layers: dict[str, nn.Module], x: Tensor, grad: Tensor) -> None:
    """The input's gradient must agree before times mean anything."""
    truth = run(layers["loop"], x, grad)[0]
    for name in ("eager", "reference"):
        error = (run(layers[name], x, grad)[0] - truth).norm() / truth.norm()
        assert error < 1e-4, f"{name} is wrong by {error:.1e}"


def milliseconds(work: Callable[[], object], device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def measure(shape: tuple[int, int, int, int], reset: str, device: str, repeats: int) -> list[dict]:
    n, d, steps, batch = shape
    torch.manual_seed(0)
    layers = contenders(n, d, reset, device)
    x = torch.randn(steps, batch, 8, device=device, requires_grad=True)
    grad = torch.randn(steps, batch, n, device=device)
    check_equal(layers, x, grad)
    times: dict[str, list[float]] = {name: [] for name in layers}
    for _ in range(repeats):
        for name, layer in layers.items():
            times[name].append(milliseconds(lambda layer=layer: run(layer, x, grad), device))
    return [
        {
            "shape": f"GRU reset-{reset}",
            "n": n,
            "d": d,
            "T": steps,
            "B": batch,
            "dtype": "float32",
            "pass": "forward+backward",
            "contender": name,
            "milliseconds": round(statistics.median(samples), 3),
        }
        for name, samples in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    print(f"{'':28} {'loop':>9} {'reference':>9} {'eager':>9} {'nn.GRU':>9}  loop/eager")
    for shape in SHAPES:
        for reset in ("after", "before"):
            found = measure(shape, reset, args.device, args.repeats)
            rows += found
            ms = {row["contender"]: row["milliseconds"] for row in found}
            label = f"n={shape[0]} d={shape[1]} T={shape[2]} B={shape[3]} {reset}"
            cells = " ".join(f"{ms[k]:9.1f}" for k in ("loop", "reference", "eager", "nn.GRU"))
            print(f"{label:28} {cells}  {ms['loop'] / ms['eager']:.1f}x", flush=True)
    if args.out:
        device = platform.machine() if args.device == "cpu" else torch.cuda.get_device_name()
        record = {
            "date": time.strftime("%Y-%m-%d"),
            "device": device,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "passnet": passnet.__version__,
            "rows": rows,
        }
        args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
