"""Scans of every kind and awkward shape, and what a backend makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from scan_calls import run_on
from torch import Tensor

from passnet.ops import GruScan, LstmScan
from passnet.ops.inputs import Inputs


@dataclass(frozen=True)
class Case:
    """One scan; `cell` is "after", "before" or "lstm".

    `inputs` are "features", "features with gradients" or "symbols", `width` of them; without them
    the drive is given.
    """

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
    inputs: str | None = None
    width: int = 3
    bias: bool = True

    @property
    def gates(self) -> int:
        return 4 if self.cell == "lstm" else 3

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(those with gradients, constants), in double precision."""
        g, t, b, n, d = self.gates, self.steps, self.batch, self.units, self.rank
        live, fixed = self._driving()
        live["initial"] = _draw(b, n)
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
        if self.masks is not None:
            count = {"shared": 1, "each": g}[self.masks]
            fixed["masks"] = (torch.rand(count, b, n) > 0.4).double() / 0.6
        for name in ("hold", "hold_cell") if self.cell == "lstm" else ("hold",):
            if self.hold == "lengths" or (self.hold, name) == ("lengths of cells", "hold_cell"):
                fixed[name] = (torch.arange(t)[:, None, None] > torch.arange(b)[:, None]).double()
            elif self.hold == "units":
                fixed[name] = torch.rand(t, b, n).double()
        return live, fixed

    def _driving(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        g, t, b, n, m = self.gates, self.steps, self.batch, self.units, self.width
        if self.inputs is None:
            return {"drive": _draw(g, t, b, n)}, {}
        live = {"input_weight": _draw(g, n, m) / m**0.5}
        if self.bias:
            live["bias"] = _draw(g, n)
        if self.inputs == "symbols":
            return live, {"x": torch.randint(m, (t, b))}
        x = {"x": _draw(t, b, m)}
        return (x | live, {}) if self.inputs == "features with gradients" else (live, x)

    def call(self, live: dict[str, Tensor], fixed: dict[str, Tensor]) -> GruScan | LstmScan:
        """The scan of these tensors, which are those of `tensors` in any type."""
        rest, fixed = dict(live), dict(fixed)
        if self.inputs is None:
            source = rest.pop("drive")
        else:
            x = rest.pop("x", fixed.pop("x", None))
            assert x is not None
            weight, bias = rest.pop("input_weight"), rest.pop("bias", None)
            source = Inputs(x, weight, bias, needs_gradient=x.requires_grad)
        initial = rest.pop("initial")
        if self.cell == "lstm":
            cell = rest.pop("initial_cell")
            return LstmScan(source, initial, cell, tuple(rest.values()), self.structure, **fixed)
        inner = rest.pop("inner_bias", None)
        factors = tuple(rest.values())
        return GruScan(
            source, initial, factors, self.structure, self.cell, **fixed, inner_bias=inner
        )

    def run(
        self,
        live: dict[str, Tensor],
        fixed: dict[str, Tensor],
        backend: str,
        arrive: Callable[[Tensor], Tensor] = lambda grad: grad,
    ) -> dict[str, Tensor]:
        """Outputs and the gradient of every live tensor; those of the outputs `arrive` so."""
        live = {name: t.detach().requires_grad_() for name, t in live.items()}
        call = self.call(live, fixed)
        names = ("hidden", "cells") if isinstance(call, LstmScan) else ("states",)
        outputs = dict(zip(names, run_on(backend, call), strict=True))
        generator = torch.Generator().manual_seed(3)
        arriving = [
            arrive(torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype))
            for out in outputs.values()
        ]
        grads = torch.autograd.grad(list(outputs.values()), list(live.values()), arriving)
        named = {f"grad of {name}": grad for name, grad in zip(live, grads, strict=True)}
        return {name: out.detach() for name, out in outputs.items()} | named


def cast(tensors: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """The same in another type, but for symbols."""
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


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
_DRIVEN = [
    replace(case, **{"inputs": "features"} | changes)
    for case in (Case("after"), Case("before"), Case("lstm"))
    for changes in (
        {},
        {"bias": False, "masks": "shared", "hold": "units"},
        {"inputs": "features with gradients", "width": 70, "batch": 19},
        {"units": 130, "rank": 24, "batch": 37, "width": 1, "structure": "low_rank"},
        {"steps": 1, "batch": 4, "units": 301, "width": 17},
        {"batch": 2, "width": 20},
        {"width": 600, "masks": "each", "tied": True},
        {"structure": "dense", "hold": "lengths", "batch": 40},
        {"inputs": "symbols", "batch": 19},
        {"inputs": "symbols", "units": 131, "batch": 19, "width": 40, "masks": "each"},
        {"inputs": "symbols", "bias": False, "structure": "dense"},
        {"inputs": "symbols", "steps": 2, "batch": 2, "width": 4},
        {"inputs": "symbols", "units": 131, "batch": 19, "width": 200},
    )
]
CASES = [
    *_PLAIN,
    *_AWKWARD,
    *_DRIVEN,
    Case("lstm", hold="lengths of cells"),  # and none of hidden states
    Case("after", inner_bias=True),
    Case("after", inner_bias=True, units=70, batch=19, steps=9),  # more rows than a sum has
    Case("after", "dense", inner_bias=True, masks="each", hold="units"),
]
