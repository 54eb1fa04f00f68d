"""Batch norms, gates and Highway layers with random numbers, on kernels and in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from accuracy import pooled
from layer_twins import doubled, randomised, signed
from torch import Tensor

import passnet
from passnet.cells.batch_norm import BatchNorm
from passnet.ops.batch_norm import batch_norm
from passnet.ops.cuda.highway import KERNELS
from passnet.ops.highway_gate import highway_gate

Numbers = dict[str, Tensor]


@contextmanager
def without_kernels() -> Iterator[None]:
    """Nothing is served here."""
    KERNELS.device_type, before = "nowhere", KERNELS.device_type
    try:
        yield
    finally:
        KERNELS.device_type = before


def three_ways(make: Callable[[int, torch.dtype], Numbers], draws: int):
    """(on kernels, plainly, plainly in double precision), all draws together."""

    def one(seed: int) -> tuple[Numbers, Numbers, Numbers]:
        ours = make(seed, torch.float32)
        with without_kernels():
            return ours, make(seed, torch.float32), make(seed, torch.float64)

    return pooled(map(one, range(draws)))


@dataclass(frozen=True)
class Norm:
    rows: int
    columns: int
    stack: int | None = None
    scale: bool = True
    shift: bool = True
    equal: bool = False  # every third column has equal rows
    turned: bool = False  # rows outside of the stack, as one product of all gates leaves them
    centre: float = 0.0

    @property
    def draws(self) -> int:
        return max(1, 400 // (self.rows * self.columns), 32 // self.columns)

    def numbers(self, seed: int, dtype: torch.dtype, device: str = "cpu") -> Numbers:
        """The result, both running averages and all gradients."""
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator)

        row = (self.columns,) if self.stack is None else (self.stack, self.columns)
        shape = (*row[:-1], self.rows, self.columns)
        # Of two rows nothing but their order is left; with little spread, epsilon tells more.
        x = self.centre + (1e-3 if self.rows == 2 else 1.0) * normal(*shape)
        if self.equal:
            x[..., ::3] = x[..., :1, ::3]
        if self.turned:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        mean, deviation, scale, shift = (normal(*row) for _ in range(4))
        weight = normal(*shape)
        x, mean, deviation, scale, shift, weight = (
            tensor.to(device=device, dtype=dtype)
            for tensor in (x, mean, deviation, scale, shift, weight)
        )
        live = {"x": x} | ({"scale": scale} if self.scale else {})
        live |= {"shift": shift} if self.shift else {}
        for tensor in live.values():
            tensor.requires_grad_()
        out = batch_norm(x, mean, deviation, live.get("scale"), live.get("shift"))
        grads = torch.autograd.grad((out * weight).sum(), list(live.values()))
        found = {f"gradient of {name}": grad for name, grad in zip(live, grads, strict=True)}
        return found | {"out": out.detach(), "mean": mean, "deviation": deviation}


def gate_numbers(
    shape: tuple[int, ...], activation: str, seed: int, dtype: torch.dtype, device: str = "cpu"
) -> Numbers:
    """The next state and all gradients; every fourth number before an activation is zero."""
    generator = torch.Generator().manual_seed(seed)
    state, weight = (torch.randn(shape, generator=generator) for _ in range(2))
    before = 3 * torch.randn(2, *shape, generator=generator)
    before[..., ::4] = 0
    state, before, weight = (t.to(device=device, dtype=dtype) for t in (state, before, weight))
    state.requires_grad_()
    before.requires_grad_()
    out = highway_gate(state, before, activation)
    dstate, dbefore = torch.autograd.grad((out * weight).sum(), (state, before))
    return {"out": out.detach(), "state": dstate, "candidate": dbefore[0], "transform": dbefore[1]}


MATRICES = {
    "dense": passnet.Dense(),
    "low-rank": passnet.LowRank(4),
    "low-rank tied": passnet.LowRank(4, tied=True),
    "diagonal": passnet.LowRankPlusDiagonal(4),
    "diagonal tied": passnet.LowRankPlusDiagonal(4, tied=True),
    "blocks": passnet.BlockDiagonal(2),
}


def made_layer(matrix, units: int = 12, device: str = "cpu", **options) -> passnet.Highway:
    """Two layers with no parameter left at a special value."""
    torch.manual_seed(3)
    layer = passnet.Highway(units, 2, matrix=matrix, **({"batch_norm": True} | options))
    return randomised(layer).to(device)


def layer_numbers(layer: passnet.Highway, x: Tensor) -> Numbers:
    """The output, gradients of input and parameters, and the running averages after this call."""
    x = x.clone().requires_grad_()
    out = layer(x)
    named = {"input": x} | dict(layer.named_parameters())
    grads = torch.autograd.grad(out.square().sum(), list(named.values()))
    found = {"output": out.detach()} | dict(zip(named, grads, strict=True))
    for name, norm in layer.named_modules():
        if isinstance(norm, BatchNorm):
            # Together, since a mean may be zero but for rounding.
            found[name] = torch.stack((norm.running_mean, norm.running_deviation))
    return found


def second_numbers(layer: passnet.Highway, x: Tensor) -> Numbers:
    """Derivatives of the squared gradient of the input."""
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    named = {"input": x} | dict(layer.named_parameters())
    grads = torch.autograd.grad(first.square().sum(), list(named.values()))
    return {"first": first.detach()} | dict(zip(named, grads, strict=True))


def layer_three_ways(layer: passnet.Highway, rows: int, numbers=layer_numbers):
    """(on kernels, plainly, plainly in double precision)."""
    x = signed(rows, layer.size).to(next(layer.parameters()).device)
    plain, exact = doubled(layer).float(), doubled(layer)
    ours = numbers(layer, x)
    with without_kernels():
        return ours, numbers(plain, x), numbers(exact, x.double())
