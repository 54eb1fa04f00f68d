"""Random inputs of every kind, and what the kernels make of them beside plain products."""

from __future__ import annotations

import torch
from torch import Tensor

from passnet.ops.cuda import inputs as kernels
from passnet.ops.cuda.chip import Chip
from passnet.ops.inputs import Inputs

KINDS = [("features", False), ("symbols", False), ("symbols", True)]


def made(shape, kind, scaled, bias, dtype, device="cuda") -> tuple[Inputs, Tensor]:
    """Float64 inputs and a gradient of their drive, both already rounded to the dtype."""
    gates, steps, batch, units, width = shape
    generator = torch.Generator(device).manual_seed(0)

    def draw(*size):
        value = torch.randn(*size, generator=generator, device=device, dtype=torch.float64)
        return value.to(dtype).double()

    x = draw(steps, batch, width)
    if kind == "symbols":
        x = torch.randint(width, (steps, batch), generator=generator, device=device)
    scale = draw(steps, batch) if scaled else None
    offset = draw(gates, units) if bias else None
    return Inputs(x, draw(gates, units, width), offset, scale), draw(gates, steps, batch, units)


def cast(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    def one(tensor):
        return tensor if tensor is None or not tensor.is_floating_point() else tensor.to(dtype)

    return Inputs(one(inputs.x), one(inputs.weight), one(inputs.bias), one(inputs.scale))


def compared(exact: Inputs, grad: Tensor, dtype: torch.dtype, chip: Chip):
    """By name, what the kernels found, what plain products found, and the truth."""
    ours = cast(exact, dtype)
    assert kernels.serves(ours)
    results = {"drive": (kernels.form_drive(ours, chip), ours.drive(), exact.drive())}
    found = kernels.gradients(ours, grad.to(dtype), chip)
    plain, truth = ours.gradients(grad.to(dtype)), exact.gradients(grad)
    for name, triple in zip(("weight", "bias"), zip(found, plain, truth, strict=True), strict=True):
        if triple[0] is not None:
            results[name] = triple
    return results
