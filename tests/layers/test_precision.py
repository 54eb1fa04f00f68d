"""float64 to float16 under the one rule, and autocast."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_all_accurate
from layer_twins import doubled, randomised, signed
from plain_loops import dense_matrices, drive_of, gru_loop, lstm_loop

import passnet

M, N, T, B = 3, 8, 6, 5
KINDS = {
    "GRU before": lambda **k: passnet.GRU(M, N, reset="before", **k),
    "GRU after": lambda **k: passnet.GRU(M, N, recurrent_bias=True, **k),
    "LSTM": lambda **k: passnet.LSTM(M, N, **k),
}
SPECS = {"dense": passnet.Dense(), "diagonal tied": passnet.LowRankPlusDiagonal(3, tied=True)}
grid = pytest.mark.parametrize(
    ("kind", "spec"), [(k, s) for k in KINDS for s in SPECS], ids=lambda value: value
)
HALVES = [torch.bfloat16, torch.float16]


def plainly(module, x) -> torch.Tensor:
    """The layer's outputs by textbook loops in the dtype of `x`."""
    cell = module.cells[0]
    names = cell.recurrent.structure.factors
    w = dense_matrices(
        cell.recurrent.structure.name,
        dict(zip(names, cell.recurrent.factors(), strict=True)),
        len(cell.gate_names),
    )
    drive = drive_of(x, cell.input_weight, cell.bias)
    start = torch.zeros(x.shape[1], N, dtype=x.dtype)
    if isinstance(module, passnet.LSTM):
        return lstm_loop(drive, start, start, w)[0]
    return gru_loop(drive, start, w, reset=module.reset, inner_bias=cell.inner_bias)


def with_gradients(module, x, run) -> dict[str, torch.Tensor]:
    x = x.clone().requires_grad_()
    y = run(module, x)
    generator = torch.Generator().manual_seed(2)
    weight = (0.5 + torch.rand(y.shape, generator=generator)).to(y.dtype)
    named = {"input": x} | dict(module.named_parameters())
    grads = torch.autograd.grad(y, list(named.values()), weight)
    return {"output": y.detach()} | dict(zip(named, grads, strict=True))


@grid
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_every_dtype(kind, spec, dtype):
    module = randomised(KINDS[kind](matrix=SPECS[spec])).to(dtype)
    x = signed(T, B, M).to(dtype)
    got = with_gradients(module, x, lambda m, x: m(x)[0])
    assert got["output"].dtype == dtype
    assert_all_accurate(
        got,
        reference=with_gradients(module, x, plainly),
        truth=with_gradients(doubled(module), x.double(), plainly),
    )


@grid
def test_double_precision_is_kept_throughout(kind, spec):
    """Judged in float64 by finite differences, which single precision anywhere would spoil."""
    module = randomised(KINDS[kind](matrix=SPECS[spec], dtype=torch.float64))
    y, state = module(signed(2, 1, M).double())
    assert y.dtype == torch.float64
    assert all(s.dtype == torch.float64 for s in (state if kind == "LSTM" else (state,)))
    x = signed(2, 1, M).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: module(x)[0], x)


@grid
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast(kind, spec, dtype):
    """Single-precision parameters, half-precision products; gradients come back single."""
    module = randomised(KINDS[kind](matrix=SPECS[spec]))
    x = signed(T, B, M)
    half = doubled(module).to(dtype)

    def cast(module, x):
        with torch.autocast("cpu", dtype):
            return module(x)[0]

    got = with_gradients(module, x, cast)
    assert got["output"].dtype == dtype
    assert all(value.dtype == torch.float32 for name, value in got.items() if name != "output")
    lowered = {name: value.to(dtype) for name, value in got.items()}
    assert_all_accurate(
        lowered,
        reference=with_gradients(half, x.to(dtype), plainly),
        truth=with_gradients(doubled(module), x.double(), plainly),
    )


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast_with_starts_symbols_lengths_and_layers(dtype):
    module = passnet.LSTM(M, N, 2, bidirectional=True, learn_initial_state=True, dropout_state=0.2)
    with torch.autocast("cpu", dtype):
        y, state = module(torch.randint(M, (T, B)), lengths=[6, 1, 2, 3, 4])
        again, _ = module(signed(T, B, M), state)
        single = tuple(torch.zeros(4, B, N) for _ in range(2))
        third, _ = module(signed(T, B, M), single)
    assert y.dtype == again.dtype == third.dtype == dtype
    (y.sum() + again.sum()).backward()
    assert all(p.grad.dtype == torch.float32 for p in module.parameters())
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_long_memory_is_kept_in_half_precision(dtype):
    """With a carry gate near one each step adds less than half precision resolves: the running
    state must be wider, or it stops growing at once."""
    module = passnet.GRU(1, 4, carry_bias=7.0)
    with torch.no_grad():
        module.cells[0].recurrent.weight.zero_()
        module.cells[0].input_weight.zero_()
        module.cells[0].input_weight[2] = 1.0
    module = module.to(dtype)
    x = torch.full((300, 1, 1), 0.5, dtype=dtype)
    y = module(x)[0][-1]
    (level,) = doubled(module)(x.double())[0][-1].unique().tolist()
    assert level > 0.1
    assert torch.equal(y, torch.full_like(y, level))


@pytest.mark.parametrize("batch_norm", [False, True])
def test_highway_under_autocast(batch_norm):
    module = randomised(
        passnet.Highway(N, 2, matrix=passnet.LowRankPlusDiagonal(3), batch_norm=batch_norm)
    )
    x = signed(12, N)
    with torch.autocast("cpu", torch.bfloat16):
        y = module(x)
    y.sum().backward()
    assert torch.isfinite(y).all()
    assert all(p.grad.dtype == torch.float32 for p in module.parameters())


def test_unitary_ignores_autocast():
    """There is no half-precision complex arithmetic to fall to."""
    module = randomised(passnet.UnitaryRNN(M, N))
    x = signed(T, B, M).bfloat16().float()
    with torch.autocast("cpu", torch.bfloat16):
        y, state = module(x)
    assert y.dtype == torch.float32 and state.dtype == torch.complex64
    assert torch.equal(y, module(x)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_leaves_double_precision_alone(kind):
    layer, x = randomised(KINDS[kind](dtype=torch.float64)), signed(T, B, M)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x.double())[0].dtype == torch.float64
        with pytest.raises(ValueError, match=r"float32 and the layer torch\.float64") as refused:
            layer(x)
    assert "autocast" not in str(refused.value)
