"""A plain loop over time for every scan, random cases for it, and their accuracy by the rule.

`where` says what the kernels run on, as the engines take it; a GPU where nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import accuracy
import torch
from accuracy import MANY
from torch import Tensor

from passnet.ops import GruScan, LstmScan
from passnet.ops.gru_scan.cuda import CudaGru
from passnet.ops.inputs import Inputs
from passnet.ops.lstm_scan.cuda import CudaLstm

FACTORS = ("grad_left", "grad_right", "grad_diagonal")


@dataclass(frozen=True)
class Case:
    cell: str  # gru_after, gru_before, lstm
    n: int
    d: int | None
    steps: int
    batch: int
    diagonal: bool = True
    tied: bool = False
    masks: int = 0
    hold: int = 0
    inner: bool = False
    dtype: torch.dtype = torch.float32
    scale: float = 1.0

    @property
    def gates(self) -> int:
        return 4 if self.cell == "lstm" else 3

    @property
    def structure(self) -> str:
        if self.d is None:
            return "dense"
        return "low_rank_plus_diagonal" if self.diagonal else "low_rank"


def make(case: Case, seed: int = 0, device: str = "cuda") -> dict:
    """Random float64 tensors already rounded to the case's dtype."""
    generator = torch.Generator(device).manual_seed(seed)
    g, n, d, t, b = case.gates, case.n, case.d, case.steps, case.batch

    def normal(*shape, scale=1.0):
        value = torch.randn(*shape, generator=generator, dtype=torch.float64, device=device)
        return (value * scale).to(case.dtype).double()

    if d is None:
        factors = (normal(g, n, n, scale=case.scale / n**0.5),)
    else:
        left = normal(g, n, d, scale=case.scale / d**0.5)
        right = normal(1 if case.tied else g, d, n, scale=1 / n**0.5)
        factors = (left, right)
        if case.diagonal:
            factors += (normal(g, n, scale=0.5),)
    keep = 0.8
    masks = None
    if case.masks:
        shape = (g if case.masks == 2 else 1, b, n)
        masks = (torch.rand(shape, generator=generator, device=device) < keep).double() / keep
        masks = masks.to(case.dtype).double()
    hold = None
    hold_cell = None
    if case.hold == 1:
        lengths = torch.randint(1, t + 1, (b,), generator=generator, device=device)
        hold = (torch.arange(t, device=device)[:, None] >= lengths).double()[..., None]
        hold_cell = hold
    elif case.hold == 2:
        hold, hold_cell = (
            (torch.rand(t, b, n, generator=generator, device=device) < 0.3).double() for _ in "hc"
        )
    return {
        "drive": normal(g, t, b, n),
        "h0": normal(b, n, scale=0.5),
        "c0": normal(b, n, scale=0.5),
        "factors": factors,
        "masks": masks,
        "hold": hold,
        "hold_cell": hold_cell if case.cell == "lstm" else None,
        "inner": normal(n, scale=0.5) if case.inner else None,
        "grad": normal(t, b, n),
        "grad_cell": normal(t, b, n),
    }


def cast(data: dict, dtype: torch.dtype) -> dict:
    def one(value):
        if isinstance(value, tuple):
            return tuple(one(v) for v in value)
        return None if value is None else value.to(dtype)

    return {name: one(value) for name, value in data.items()}


def strided(data: dict) -> list[dict]:
    """The same numbers in tensors with gaps, transposed, and dense at odd addresses."""

    def changed(change, value):
        if isinstance(value, tuple):
            return tuple(changed(change, v) for v in value)
        return None if value is None else change(value)

    ways = (
        lambda value: torch.stack([value, value + 1], -1)[..., 0],
        lambda value: value.mT.contiguous().mT if value.ndim > 1 else value,
        lambda value: torch.cat([value.flatten()[:1], value.flatten()])[1:].view(value.shape),
    )
    return [{name: changed(way, value) for name, value in data.items()} for way in ways]


def loop(case: Case, data: dict) -> dict[str, Tensor]:
    """Outputs and gradients by autograd through a plain loop in the dtype of the data."""
    drive = data["drive"].clone().requires_grad_()
    h0 = data["h0"].clone().requires_grad_()
    c0 = data["c0"].clone().requires_grad_()
    factors = [factor.clone().requires_grad_() for factor in data["factors"]]
    inner = None if data["inner"] is None else data["inner"].clone().requires_grad_()
    masks = data["masks"]

    def apply(g: int, x: Tensor) -> Tensor:
        if masks is not None:
            x = x * masks[g if masks.shape[0] > 1 else 0]
        if case.d is None:
            return x @ factors[0][g].mT
        right = factors[1][0 if case.tied else g]
        y = (x @ right.mT) @ factors[0][g].mT
        return y + factors[2][g] * x if case.diagonal else y

    h, c = h0, c0
    states, cells = [], []
    for t in range(case.steps):
        x = drive[:, t]
        if case.cell == "lstm":
            i, f = torch.sigmoid(x[0] + apply(0, h)), torch.sigmoid(x[1] + apply(1, h))
            g, o = torch.tanh(x[2] + apply(2, h)), torch.sigmoid(x[3] + apply(3, h))
            proposed = i * g + f * c
            new = o * torch.tanh(proposed)
            if data["hold_cell"] is None:
                c = proposed
            else:
                k = data["hold_cell"][t]
                c = k * c + (1 - k) * proposed
            cells.append(c)
        else:
            r, u = torch.sigmoid(x[0] + apply(0, h)), torch.sigmoid(x[1] + apply(1, h))
            if case.cell == "gru_after":
                q = apply(2, h)
                if inner is not None:
                    q = q + inner
                candidate = torch.tanh(x[2] + r * q)
            else:
                candidate = torch.tanh(x[2] + apply(2, r * h))
            new = (1 - u) * candidate + u * h
        if data["hold"] is not None:
            k = data["hold"][t]
            new = k * h + (1 - k) * new
        h = new
        states.append(h)
    out = {"states": torch.stack(states)}
    total = (out["states"] * data["grad"]).sum()
    if case.cell == "lstm":
        out["cells"] = torch.stack(cells)
        total = total + (out["cells"] * data["grad_cell"]).sum()
    wanted = {"grad_drive": drive, "grad_h0": h0}
    if case.cell == "lstm":
        wanted["grad_c0"] = c0
    wanted |= dict(zip(FACTORS, factors, strict=False))
    if inner is not None:
        wanted["grad_inner"] = inner
    grads = torch.autograd.grad(total, list(wanted.values()))
    out.update(zip(wanted, grads, strict=True))
    return {name: value.detach() for name, value in out.items()}


def scan_of(case: Case, data: dict, **where):
    """(the engine that runs a case, the call that describes it)."""
    fixed = {"masks": data["masks"], "hold": data["hold"]}
    if case.cell == "lstm":
        call = LstmScan(
            data["drive"], data["h0"], data["c0"], data["factors"], case.structure, **fixed,
            hold_cell=data["hold_cell"],
        )  # fmt: skip
        return CudaLstm(**where), call
    call = GruScan(
        data["drive"], data["h0"], data["factors"], case.structure,
        case.cell.removeprefix("gru_"), **fixed, inner_bias=data["inner"],
    )  # fmt: skip
    return CudaGru(**where), call


def formed(drive: Tensor) -> Inputs:
    """Inputs whose drive is this one: every step of every sequence has a symbol of its own."""
    _, steps, batch, _ = drive.shape
    symbols = torch.arange(steps * batch, device=drive.device).view(steps, batch)
    return Inputs(symbols, drive.flatten(1, 2).mT)


def kernel(case: Case, data: dict, *, given: bool = False, **where) -> dict[str, Tensor]:
    """The same from the fused scans, as layers call them.

    The gates take the place of the drive, and gradients theirs; unless the drive is given.
    """
    engine, call = scan_of(case, data, **where)
    if not given:
        call = replace(call, source=formed(data["drive"]))
    lstm = case.cell == "lstm"
    count = 2 if lstm else 1
    kept = engine.forward(call)
    grads = [data["grad"], data["grad_cell"]][:count]
    backward = engine.backward if given else engine.last_backward
    found = backward(call, grads, kept[:count], kept[count:])
    names = ["grad_drive", "grad_h0", *(["grad_c0"] if lstm else [])]
    names += [*FACTORS[: len(data["factors"])], *(["grad_inner"] if case.inner else [])]
    return dict(zip(["states", "cells"], kept[:count], strict=False)) | dict(
        zip(names, found, strict=True)
    )


FEW_ROWS, FEW_UNITS = 32, 64


def three_ways(case: Case, seed: int = 0, device: str = "cuda", **where):
    """(by the kernels, by the plain loop, the truth), each by name."""
    data = make(case, seed, device)
    rounded = cast(data, case.dtype)
    truth, plain = loop(case, data), loop(case, rounded)
    return kernel(case, rounded, **where), plain, truth


def ratios(case: Case, seed: int = 0, device: str = "cuda", **where) -> dict[str, float]:
    """The error of every output and gradient over its allowance.

    Several draws are pooled where a case has only a few rows or units.
    """
    count = max(1, FEW_ROWS // (case.steps * case.batch), FEW_UNITS // case.n)
    draws = (three_ways(case, draw, device, **where) for draw in range(seed, seed + count))
    ours, reference, truth = accuracy.pooled(draws)
    return accuracy.ratios(ours, reference=reference, truth=truth)


def many(case: Case, seed: int = 0, **where) -> Iterator[dict[str, float]]:
    """The ratios of many draws."""
    return (ratios(case, seed + FEW_UNITS * draw, **where) for draw in range(MANY))


def worst(case: Case, seed: int = 0, **where) -> tuple[float, str]:
    """The largest of a case's ratios, and whose it is."""
    return accuracy.worst(ratios(case, seed, **where))


def worst_of_many(case: Case, seed: int = 0, **where) -> tuple[float, str]:
    """`worst` of the medians over many draws."""
    return accuracy.worst_of_many(many(case, seed, **where))


def fair(case: Case, seed: int = 0, **where) -> tuple[float, str]:
    """`worst` of one draw, or of many where that one is over the rule."""
    return accuracy.fair(ratios(case, seed, **where), many(case, seed + 1, **where))
