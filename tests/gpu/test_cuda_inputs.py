"""The drive and the gradients of input matrices as the GPU's kernels compute them."""

from __future__ import annotations

import itertools

import pytest
import torch
from accuracy import assert_accurate
from input_cases import KINDS, cast, compared, made

from passnet.ops.cuda import inputs as on_gpu
from passnet.ops.cuda.chip import gpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

SHAPES = [
    (3, 40, 3, 128, 1), (4, 7, 5, 37, 10), (3, 1, 1, 1, 1), (3, 33, 20, 700, 51),
    (3, 200, 40, 1000, 51), (2, 29, 5, 257, 17), (3, 100, 40, 3298, 64),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "kind, bias", list(itertools.product(KINDS, (True, False))), ids=lambda v: str(v)
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_they_are_those_of_plain_products(shape, kind, bias, dtype):
    exact, grad = made(shape, *kind, bias, dtype)
    for name, (got, reference, truth) in compared(exact, grad, dtype, gpu(0)).items():
        assert_accurate(got, reference=reference, truth=truth, name=name)


def test_the_same_bits_every_run():
    inputs, grad = made((3, 60, 20, 200, 51), "symbols", False, True, torch.float32)
    inputs, grad = cast(inputs, torch.float32), grad.float()
    first = on_gpu.gradients(inputs, grad, gpu(0))
    for _ in range(5):
        assert all(map(torch.equal, on_gpu.gradients(inputs, grad, gpu(0)), first))


@pytest.mark.parametrize("gates", [3, 4])
def test_rows_of_symbols_that_rest_are_passed_over(gates):
    exact, grad = made((gates, 100, 40, 300, 51), "symbols", True, True, torch.float32)
    inputs, grad = cast(exact, torch.float32), grad.float()
    hold = torch.zeros(100, 40, 1, device="cuda")
    hold[3:70], hold[75:, 1:] = 1.0, 1.0
    moving = grad * (1 - hold)
    truth, plain = exact.gradients(moving.double()), inputs.gradients(moving)
    expected = on_gpu.gradients(inputs, moving, gpu(0))
    holds = (hold, hold if gates == 4 else None)
    grad = torch.where(hold == 1, float("nan"), grad)
    weight, bias = on_gpu.gradients(inputs, grad, gpu(0), holds=holds)
    assert torch.equal(weight, expected[0])
    # Rows of symbols are added up in groups of those that do not rest: not the same bits.
    assert_accurate(bias, reference=plain[1], truth=truth[1])
