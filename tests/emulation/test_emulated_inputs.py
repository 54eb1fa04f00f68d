"""The kernels of input matrices, executed on a CPU: the drive, and the matrices' gradients."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from accuracy import assert_accurate
from emulated_scans import BFLOAT16, FLOAT16, ROWS, SHUFFLED, use_tensor_cores
from emulator import BACKWARDS
from gpu.input_cases import KINDS, cast, compared, made

from passnet.ops.cuda import inputs
from passnet.ops.inputs import Inputs


def check_inputs(shape, kind, bias, dtype, chip) -> None:
    exact, grad = made(shape, *kind, bias, dtype, device="cpu")
    expected = compared(exact, grad, dtype, chip)
    for name, (got, reference, truth) in expected.items():
        assert_accurate(got, reference=reference, truth=truth, name=name)
    for chip.order in (BACKWARDS, SHUFFLED):
        for name, (got, _, _) in compared(exact, grad, dtype, chip).items():
            assert torch.equal(got, expected[name][0]), name


@pytest.mark.parametrize("shape", [(3, 5, 3, 130, 1), (4, 40, 4, 37, 10)], ids=str)
@pytest.mark.parametrize(
    "kind, bias", list(itertools.product(KINDS, (True, False))), ids=lambda v: str(v)
)
def test_inputs(emulator, shape, kind, bias):
    check_inputs(shape, kind, bias, torch.float32, emulator())


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2]], ids=str)
def test_inputs_in_sixteen_bits(emulator, dtype, kind):
    check_inputs((3, 5, 3, 40, 7), kind, True, dtype, emulator())


def test_symbols_of_many_rows_in_a_chunk(emulator):
    check_inputs((3, 90, 4, 130, 11), KINDS[2], True, torch.float32, emulator(processors=1))


@pytest.mark.parametrize("dtype", [torch.float32, BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize(
    "shape, bias", [((3, 5, 3, 130, 50), True), ((4, 40, 4, 37, 16), False)], ids=str
)
def test_gradients_of_inputs_on_tensor_cores(emulator, monkeypatch, shape, bias, dtype):
    use_tensor_cores(monkeypatch)
    check_inputs(shape, KINDS[0], bias, dtype, emulator())


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("n, dtype", ROWS, ids=str)
def test_gradients_whatever_divides_a_row(emulator, monkeypatch, n, dtype, wide):
    """Copies of sixteen bytes and less; several chunks of rows, the last of them odd."""
    if wide:
        use_tensor_cores(monkeypatch)
    kind = KINDS[0] if wide else KINDS[2]
    check_inputs((3, 47, 3, n, n // 2), kind, True, dtype, emulator())


@pytest.mark.parametrize("size", [2.0**60, 2.0**-90])
def test_gradients_of_any_size(emulator, monkeypatch, size):
    use_tensor_cores(monkeypatch)
    exact, grad = made((3, 20, 3, 40, 20), *KINDS[0], True, torch.float32, device="cpu")
    for name, triple in compared(exact, grad * size, torch.float32, emulator()).items():
        ours, reference, truth = (value / size for value in triple)
        assert_accurate(ours, reference=reference, truth=truth, name=name)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize(
    "shape, bias, processors",
    [
        ((3, 41, 3, 131, 51), True, 1),
        ((2, 29, 5, 260, 17), True, 2),
        ((1, 37, 3, 520, 64), False, 2),
        ((3, 5, 3, 142, 33), True, 8),
        ((2, 1, 1, 300, 16), False, 8),
        ((1, 13, 5, 257, 48), True, 2),
    ],
    ids=str,
)
def test_the_drive_of_short_features_on_tensor_cores(emulator, shape, bias, processors, dtype):
    """Stores of two to sixteen bytes, tiles of rows in one chunk or several, the last not full."""
    chip = emulator(processors=processors)
    exact, _ = made(shape, *KINDS[0], bias, dtype, device="cpu")
    given, truth = cast(exact, dtype), exact.drive()
    drive = inputs.form_drive(given, chip)
    assert_accurate(drive, reference=given.drive(), truth=truth, name="drive")
    for chip.order in (BACKWARDS, SHUFFLED):
        assert torch.equal(inputs.form_drive(given, chip), drive)


def test_tensor_cores_form_the_drive_of_wide_short_features_only(emulator):
    def wide(units, width, dtype, *, symbols=False):
        sizes = (3, units, width, dtype, symbols, False, True)
        return inputs._drive_launch(sizes, 100, emulator())[3]

    assert wide(128, 16, BFLOAT16) and wide(3298, 51, FLOAT16)
    assert not wide(128, 15, BFLOAT16) and not wide(127, 51, FLOAT16)
    assert not wide(128, 16, torch.float32) and not wide(128, 16, BFLOAT16, symbols=True)


def apart(tensor):
    """The same numbers with others between them."""
    return None if tensor is None else torch.stack((tensor, tensor), -1)[..., 0]


def odd(tensor):
    """The same numbers, one after the other from an odd address on."""
    if tensor is None:
        return None
    flat = tensor.flatten()
    return torch.cat((flat[:1], flat))[1:].view(tensor.shape)


@pytest.mark.parametrize("kind, scaled", KINDS)
@pytest.mark.parametrize("lying", [apart, odd])
def test_tensors_that_lie_otherwise(emulator, kind, scaled, lying):
    exact, grad = made((4, 5, 3, 40, 8), kind, scaled, True, torch.float32, device="cpu")
    given, grad, chip = cast(exact, torch.float32), grad.float(), emulator()
    hold, hold_cell = (torch.rand(5, 3, 1) < 0.5).float(), torch.ones(5, 3, 1)

    def results(change):
        changed = Inputs(*map(change, (given.x, given.weight, given.bias, given.scale)))
        holds = change(hold), change(hold_cell)
        drive = inputs.form_drive(changed, chip)
        return drive, *inputs.gradients(changed, change(grad), chip, holds=holds)

    assert all(map(torch.equal, results(lying), results(lambda tensor: tensor)))


@pytest.mark.parametrize("bias", [False, True])
def test_a_symbol_that_does_not_exist_is_no_number(emulator, bias):
    symbols = torch.tensor([[0, 5], [6, -1], [2**32, 3]])
    offset = torch.zeros(2, 33) if bias else None
    given = Inputs(symbols, torch.randn(2, 33, 6), offset)
    unknown = inputs.form_drive(given, emulator()).isnan()
    expected = torch.tensor([[False, False], [True, True], [True, False]])
    assert torch.equal(unknown, expected[None, :, :, None].expand_as(unknown))
    weight, _ = inputs.gradients(given, torch.ones(2, 3, 2, 33), emulator())
    assert torch.equal(weight[0, 0], torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 1.0]))


def test_small_features_beside_large_ones(emulator, monkeypatch):
    """The gradient of each column is as right as that of a plain product."""
    use_tensor_cores(monkeypatch)
    exact, grad = made((3, 20, 3, 40, 20), *KINDS[0], False, torch.float32, device="cpu")
    sizes = 10.0 ** -torch.arange(20, dtype=torch.float64)
    exact = replace(exact, x=(exact.x * sizes).float().double())
    got, reference, truth = compared(exact, grad, torch.float32, emulator())["weight"]
    for column in range(20):
        one = (..., slice(column, column + 1))
        assert_accurate(got[one], reference=reference[one], truth=truth[one], name=str(column))
