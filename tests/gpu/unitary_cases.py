"""Random unitary scans: what the kernels make of them beside the plain loop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from accuracy import Numbers, pooled
from torch import Tensor

from passnet.ops import UnitaryScan
from passnet.ops.inputs import Inputs
from passnet.ops.unitary_scan.cuda import CudaUnitary
from passnet.ops.unitary_scan.reference import unitary_reference

NAMES = ("initial", "angles", "reflections", "modulus_bias")


@dataclass(frozen=True)
class Case:
    n: int
    steps: int
    batch: int
    lengths: bool = False
    source: str = "drive"  # or features, symbols
    at_zero: bool = False  # whether half of the units never leave zero

    @property
    def draws(self) -> int:
        """So many that luck does not decide."""
        return max(1, 400 // (self.n * self.batch))


def made(case: Case, seed: int = 0, device: str = "cpu") -> tuple[UnitaryScan, Tensor]:
    """A call in double precision, and a gradient of its states; both already rounded to single."""
    generator = torch.Generator().manual_seed(seed)
    n, steps, batch = case.n, case.steps, case.batch

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        value = scale * torch.randn(*shape, generator=generator)
        return value.double().to(device)

    source = normal(2, steps, batch, n)
    # A positive bias over a small modulus multiplies errors: whose is larger would be luck.
    initial, bias = normal(batch, 2 * n), normal(n, scale=0.5)
    bias = torch.where(bias > 0, bias.float() / 32, bias).double()
    if case.source == "features":
        source = Inputs(normal(steps, batch, 3), normal(2, n, 3), needs_gradient=True)
    elif case.source == "symbols":
        symbols = torch.randint(3, (steps, batch), generator=generator)
        source = Inputs(symbols.to(device), normal(2, n, 3))
    if case.at_zero:
        source, initial = torch.zeros_like(source), torch.zeros_like(initial)
        source[..., ::2] = normal(*source[..., ::2].shape)
    hold = None
    if case.lengths:
        ends = torch.randint(1, steps + 1, (batch,), generator=generator)
        hold = (torch.arange(steps)[:, None, None] >= ends[:, None]).to(device)
    factors = (normal(3, n, scale=2.0), normal(2, n, 2))
    permutation = torch.randperm(n, generator=generator).to(device)
    call = UnitaryScan(source, initial, factors, permutation, bias, hold=hold)
    return call, normal(steps, batch, 2 * n)


def single(call: UnitaryScan) -> UnitaryScan:
    """The same numbers in single precision."""
    live, fixed, layout = call.flatten()
    return UnitaryScan.unflatten([tensor.float() for tensor in live], fixed, layout)


def _named(call: UnitaryScan, states: Tensor, grads) -> dict[str, Tensor]:
    extra = {"features": ("x", "weight"), "symbols": ("weight",), "drive": ("drive",)}
    kind = "drive"
    if isinstance(call.source, Inputs):
        kind = "features" if call.source.needs_gradient else "symbols"
    names = (*extra[kind], *NAMES)
    return {"states": states.detach()} | dict(zip(names, grads, strict=True))


def loop(call: UnitaryScan, grad: Tensor) -> dict[str, Tensor]:
    """States and gradients by autograd through the plain loop."""
    live, fixed, layout = call.flatten()
    live = [tensor.detach().clone().requires_grad_() for tensor in live]
    (states,) = unitary_reference(UnitaryScan.unflatten(live, fixed, layout))
    return _named(call, states, torch.autograd.grad(states, live, grad.to(states.dtype)))


def kernel(call: UnitaryScan, grad: Tensor, **where) -> dict[str, Tensor]:
    """The same from the fused scan."""
    engine = CudaUnitary(**where)
    states, *saved = engine.forward(call)
    grad_drive, *rest = engine.backward(call, [grad], [states], saved)
    found = [grad_drive]
    if isinstance(call.source, Inputs):
        source = call.source
        found = [source.features_gradient(grad_drive)] if source.needs_gradient else []
        found.append(engine.input_gradients(source, grad_drive, call)[0])
    return _named(call, states, [*found, *rest])


def compared(case: Case, device: str = "cpu", **where):
    """By name, what the kernels found, what the loop found, and the truth; draws side by side."""

    def one(seed: int) -> tuple[Numbers, Numbers, Numbers]:
        call, grad = made(case, seed, device)
        ours = kernel(single(call), grad.float(), **where)
        return ours, loop(single(call), grad.float()), loop(call, grad)

    return pooled(map(one, range(case.draws)))
