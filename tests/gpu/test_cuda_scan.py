"""The fused CUDA scans against a float64 loop, on awkward shapes."""

from __future__ import annotations

import pytest
import torch
from gpu.scan_cases import Case, cast, fair, kernel, make, strided

from passnet.ops.cuda.families import family_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
CELLS = ("gru_after", "gru_before", "lstm")


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Uninitialised outputs are filled with NaN, so a value never written cannot pass."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


SHAPES = [
    # n, d, steps, batch
    (128, 24, 40, 3), (128, 50, 20, 2), (256, 24, 20, 2), (512, 4, 20, 2), (37, 5, 12, 3),
    (1, 1, 5, 2), (100, 7, 1, 1), (130, 1, 9, 1), (257, 13, 6, 2), (64, None, 11, 2),
    (128, None, 7, 2), (33, None, 5, 1), (1000, 64, 12, 5), (700, 130, 6, 33), (999, 3, 5, 40),
    (256, None, 9, 20), (700, None, 5, 3), (1000, None, 6, 32), (530, None, 4, 41),
    (1500, None, 3, 20), (8192, 64, 3, 20),
]  # fmt: skip
VARIANTS = [
    {}, {"diagonal": False}, {"tied": True}, {"masks": 1}, {"masks": 2}, {"tied": True, "masks": 1},
    {"tied": True, "masks": 2, "diagonal": False}, {"hold": 1}, {"hold": 2, "masks": 2},
    {"scale": 0.01}, {"scale": 4.0},
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(cell, shape):
    ratio, name = fair(Case(cell, *shape, inner=cell == "gru_after"))
    assert ratio <= 1, (ratio, name)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize(
    "shape", [(96, 10, 17, 3), (800, 40, 9, 9), (40, None, 9, 2), (600, None, 7, 20)], ids=str
)
def test_variants(cell, variant, shape):
    if shape[1] is None:
        variant = {k: v for k, v in variant.items() if k not in ("tied", "diagonal")}
    ratio, name = fair(Case(cell, *shape, **variant), seed=1)
    assert ratio <= 1, (ratio, name)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("variant", [{}, {"tied": True, "masks": 1}, {"masks": 2, "hold": 2}])
@pytest.mark.parametrize("shape", [(128, 50, 20, 2), (37, 5, 12, 3), (64, 30, 9, 2)], ids=str)
def test_factors_where_whole_matrices_are_faster(cell, variant, shape):
    """The kernels of low ranks, which such scans would not take by themselves."""
    ratio, name = fair(Case(cell, *shape, **variant), families=family_of)
    assert ratio <= 1, (ratio, name)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("n, d", [(96, 12), (800, 40), (801, 40), (3298, 40), (600, None)])
def test_sixteen_bits(cell, dtype, n, d):
    ratio, name = fair(Case(cell, n, d, 15, 4, dtype=dtype, masks=1, hold=2), seed=2)
    assert ratio <= 1, (ratio, name)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("masks", [0, 2])
@pytest.mark.parametrize(
    "shape", [(3298, 100, 24, 32), (5459, 64, 12, 27), (900, 20, 40, 70), (900, None, 24, 40)]
)
def test_lengths_in_large_groups(cell, masks, shape):
    """Sequences that have ended leave their group."""
    ratio, name = fair(Case(cell, *shape, masks=masks, hold=1), seed=5)
    assert ratio <= 1, (ratio, name)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("n, d", [(48, 6), (900, 24)], ids=["small", "large"])
def test_long_sequences_do_not_drift(cell, n, d, dtype):
    ratio, name = fair(Case(cell, n, d, 2000, 2, dtype=dtype), seed=3)
    assert ratio <= 1, (ratio, name)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("n, d", [(96, 20), (200, 20), (900, 20), (900, None)])
def test_same_bits_every_run(cell, n, d):
    case = Case(cell, n, d, 30, 6, masks=2, hold=1)
    data = cast(make(case, 4), torch.float32)
    first = kernel(case, data)
    for _ in range(5):
        for name, value in kernel(case, data).items():
            assert torch.equal(value, first[name]), name


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("n", [70, 200, 900])
def test_strided_inputs(cell, n):
    case = Case(cell, n, 9, 7, 3, masks=2, hold=2)
    data = cast(make(case, 5), torch.float32)
    expected = kernel(case, data)
    for way in strided(data):
        for name, value in kernel(case, way, given=True).items():
            assert torch.equal(value, expected[name]), name
