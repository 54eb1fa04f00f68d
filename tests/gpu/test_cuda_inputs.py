"""The drive and the gradients of input matrices as the GPU's kernels compute them."""

from __future__ import annotations

import itertools

import pytest
import torch
from accuracy import assert_accurate

from passnet.ops.cuda import inputs as on_gpu
from passnet.ops.inputs import Inputs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

SHAPES = [(3, 40, 3, 128, 1), (4, 7, 5, 37, 10), (3, 1, 1, 1, 1), (3, 33, 20, 700, 51)]
KINDS = [("features", False), ("symbols", False), ("symbols", True)]


def made(shape, kind, scaled, bias, dtype):
    gates, steps, batch, units, width = shape
    generator = torch.Generator("cuda").manual_seed(0)

    def draw(*size):
        value = torch.randn(*size, generator=generator, device="cuda", dtype=torch.float64)
        return value.to(dtype).double()

    x = draw(steps, batch, width)
    if kind == "symbols":
        x = torch.randint(width, (steps, batch), generator=generator, device="cuda")
    scale = draw(steps, batch) if scaled else None
    offset = draw(gates, units) if bias else None
    return Inputs(x, draw(gates, units, width), offset, scale), draw(gates, steps, batch, units)


def cast(inputs, dtype):
    def one(tensor):
        return tensor if tensor is None or not tensor.is_floating_point() else tensor.to(dtype)

    return Inputs(one(inputs.x), one(inputs.weight), one(inputs.bias), one(inputs.scale))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "kind, bias", list(itertools.product(KINDS, (True, False))), ids=lambda v: str(v)
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_they_are_those_of_plain_products(shape, kind, bias, dtype):
    exact, grad = made(shape, *kind, bias, dtype)
    ours = cast(exact, dtype)
    assert on_gpu.serves(ours)
    pairs = {"drive": (on_gpu.form_drive(ours), ours.drive(), exact.drive())}
    found = on_gpu.gradients(ours, grad.to(dtype))
    plain, truth = ours.gradients(grad.to(dtype)), exact.gradients(grad)
    for name, triple in zip(("weight", "bias"), zip(found, plain, truth, strict=True), strict=True):
        if triple[0] is not None:
            pairs[name] = triple
    for name, (got, reference, right) in pairs.items():
        assert_accurate(got, reference=reference, truth=right, name=name)


def test_the_same_bits_every_run():
    inputs, grad = made((3, 60, 20, 200, 51), "symbols", False, True, torch.float32)
    inputs, grad = cast(inputs, torch.float32), grad.float()
    first = on_gpu.gradients(inputs, grad)
    for _ in range(5):
        assert all(map(torch.equal, on_gpu.gradients(inputs, grad), first))
