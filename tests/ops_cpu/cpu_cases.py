"""Scans of every kind and awkward shape, and what a backend makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from passnet.ops import GruScan, LstmScan, gru_scan, lstm_scan


@dataclass(frozen=True)
class Case:
    """One scan; `cell` is "after", "before" or "lstm"."""

    cell: str = "after"
    structure: str = "low_rank_plus_diagonal"
    steps: int = 6
    batch: int = 5
    units: int = 61
    rank: int = 7
    tied: bool = False
    masks: str | None = None
    hold: str | None = None
    inner_bias: bool = False

    @property
    def gates(self) -> int:
        return 4 if self.cell == "lstm" else 3

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(those with gradients, constants), in double precision."""
        g, t, b, n, d = self.gates, self.steps, self.batch, self.units, self.rank
        live = {"drive": _draw(g, t, b, n), "initial": _draw(b, n)}
        if self.cell == "lstm":
            live["initial_cell"] = _draw(b, n)
        if self.structure == "dense":
            live["weight"] = _draw(g, n, n) / n**0.5
        else:
            live["expand"] = _draw(g, n, d) / d**0.5
            live["project"] = _draw(1 if self.tied else g, d, n) / n**0.5
        if self.structure == "low_rank_plus_diagonal":
            live["diagonal"] = _draw(g, n)
        if self.inner_bias:
            live["inner_bias"] = _draw(n)
        fixed = {}
        if self.masks is not None:
            count = {"shared": 1, "each": g}[self.masks]
            fixed["masks"] = (torch.rand(count, b, n) > 0.4).double() / 0.6
        for name in ("hold", "hold_cell") if self.cell == "lstm" else ("hold",):
            if self.hold == "lengths":
                fixed[name] = (torch.arange(t)[:, None, None] > torch.arange(b)[:, None]).double()
            elif self.hold == "units":
                fixed[name] = torch.rand(t, b, n).double()
        return live, fixed

    def run(
        self, live: dict[str, Tensor], fixed: dict[str, Tensor], backend: str
    ) -> dict[str, Tensor]:
        """Outputs and the gradient of every live tensor."""
        live = {name: t.detach().requires_grad_() for name, t in live.items()}
        rest = dict(live)
        drive, initial = rest.pop("drive"), rest.pop("initial")
        inner = {"inner_bias": rest.pop("inner_bias")} if self.inner_bias else {}
        if self.cell == "lstm":
            cell = rest.pop("initial_cell")
            call = LstmScan(drive, initial, cell, tuple(rest.values()), self.structure, **fixed)
            outputs = dict(zip(("hidden", "cells"), lstm_scan(call, backend=backend), strict=True))
        else:
            call = GruScan(
                drive, initial, tuple(rest.values()), self.structure, self.cell, **fixed, **inner
            )
            outputs = {"states": gru_scan(call, backend=backend)}
        generator = torch.Generator().manual_seed(3)
        arriving = [
            torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
            for out in outputs.values()
        ]
        grads = torch.autograd.grad(list(outputs.values()), list(live.values()), arriving)
        named = {f"grad of {name}": grad for name, grad in zip(live, grads, strict=True)}
        return {name: out.detach() for name, out in outputs.items()} | named


def cast(tensors: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def _draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


_PLAIN = [
    Case(cell, structure) for cell in ("after", "before", "lstm")
    for structure in ("dense", "low_rank", "low_rank_plus_diagonal")
]  # fmt: skip
_AWKWARD = [
    replace(case, **changes)
    for case in (Case("after"), Case("before"), Case("lstm"))
    for changes in (
        {"steps": 1},
        {"batch": 1},
        {"steps": 1, "batch": 1, "units": 301},
        {"steps": 1, "batch": 3, "structure": "dense"},
        {"units": 130, "rank": 24, "batch": 19, "steps": 9},
        {"units": 7, "rank": 3, "batch": 37, "steps": 9},
        {"rank": 1},
        {"rank": 61},
        {"tied": True},
        {"masks": "shared"},
        {"masks": "each"},
        {"masks": "each", "tied": True},
        {"masks": "shared", "tied": True, "units": 131, "rank": 17, "batch": 43},
        {"masks": "each", "structure": "dense"},
        {"hold": "lengths"},
        {"hold": "units", "masks": "shared", "tied": True},
        {"units": 640, "rank": 5, "batch": 2},
    )
]
CASES = [
    *_PLAIN,
    *_AWKWARD,
    Case("after", inner_bias=True),
    Case("after", "dense", inner_bias=True, masks="each", hold="units"),
]
