"""step() outside autograd takes the short way and gives what the sequence call gives."""

from __future__ import annotations

import weakref

import pytest
import torch
from accuracy import assert_accurate
from torch.autograd import forward_ad
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._device import DeviceContext
from torch.utils.flop_counter import FlopCounterMode

import passnet
from passnet.config.matrix import BlockDiagonal, Dense, LowRank, LowRankPlusDiagonal
from passnet.equations import STRUCTURES
from passnet.layers.streaming import _step_of, short_step
from passnet.ops.cpu import installed
from passnet.ops.cpu.stream import CellStep

if isinstance(installed(), str):
    pytest.skip(installed(), allow_module_level=True)

SYMBOLS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
MATRICES = [Dense(), LowRank(5, tied=True), LowRankPlusDiagonal(5)]


def _layers(matrix, **options):
    yield passnet.GRU(7, 45, 2, matrix=matrix, **options)
    yield passnet.GRU(7, 45, matrix=matrix, reset="before", **options)
    yield passnet.LSTM(7, 45, 2, matrix=matrix, **options)


@pytest.mark.parametrize("matrix", MATRICES, ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
@torch.no_grad()
def test_steps_equal_the_sequence(matrix, batch_first: bool) -> None:
    for layer in _layers(matrix, batch_first=batch_first):
        for batch in (1, 3):
            x = torch.randn(6, batch, 7)
            wide = type(layer).forward
            sequence = x.transpose(0, 1) if batch_first else x
            single, _ = wide(layer, sequence)
            truth, _ = wide(layer.double(), sequence.double())
            layer.float()
            state, outputs = None, []
            for t in range(6):
                output, state = layer.step(x[t], state)
                outputs.append(output)
            got = torch.stack(outputs, dim=1 if batch_first else 0)
            assert_accurate(got, reference=single, truth=truth)


@torch.no_grad()
def test_the_short_way_follows_the_parameters() -> None:
    layer = passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2))
    x, state = torch.randn(1, 4), torch.randn(1, 1, 9)

    def both():
        short = short_step(layer, x, state)
        assert short is not None
        long, _ = layer(x.unsqueeze(0), state)
        torch.testing.assert_close(short[0], long[0])

    both()
    layer.cells[0].recurrent.expand.mul_(3)
    both()
    layer.cells[0].recurrent.expand = torch.nn.Parameter(torch.randn(3, 9, 2))
    both()
    layer.cells[0].bias.data = torch.randn(3, 9)
    both()
    layer.reset_parameters()
    both()
    layer.cells[0].bias.data = torch._neg_view(torch.randn(3, 9))
    assert short_step(layer, x, state) is None, "memory holds the negatives"
    layer.cells[0].bias.data = torch.randn(3, 9)
    both()
    layer.cells[0].reset = "before"
    both()
    layer.cells[0].recurrent.structure = STRUCTURES["low_rank"]
    both()


@pytest.mark.parametrize("other", [torch.float16, torch.bfloat16, "meta"], ids=str)
@torch.no_grad()
def test_only_what_the_library_reads_takes_the_short_way(other) -> None:
    layer = passnet.GRU(4, 9, matrix=LowRank(2)).to(other)
    assert short_step(layer, torch.randn(1, 4).to(other), torch.randn(1, 1, 9).to(other)) is None


@torch.no_grad()
def test_a_step_without_memory_raises(monkeypatch) -> None:
    layer = passnet.GRU(4, 9, matrix=LowRank(2))
    step, _ = _step_of(layer.cells[0])
    monkeypatch.setattr(step, "_step", lambda tensors: 1)
    with pytest.raises(MemoryError):
        layer.step(torch.randn(1, 4), torch.randn(1, 1, 9))


@torch.no_grad()
def test_dropout_is_in_the_way_in_training_alone() -> None:
    x, state = torch.randn(1, 4), torch.randn(2, 1, 9)
    for options in ({"dropout": 0.5}, {"dropout_state": 0.5}, {"dropout_input": 0.5}):
        layer = passnet.GRU(4, 9, 2, matrix=LowRank(2), **options)
        assert short_step(layer, x, state) is None
        assert short_step(layer.eval(), x, state) is not None


def test_where_the_long_way_is_needed() -> None:
    layer = passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2))
    x, state = torch.randn(1, 4), torch.randn(1, 1, 9)
    assert short_step(layer, x, state) is None, "gradients"
    with torch.no_grad():
        assert short_step(layer, x, state) is not None
        assert short_step(layer, x.double(), state.double()) is None
        assert short_step(layer, torch.randn(9, 4), torch.randn(1, 9, 9)) is None
        assert short_step(layer, x, torch.randn(1, 9)) is None
        assert short_step(layer, x[:0], state[:, :0]) is None, "no sequences"
        assert short_step(layer, torch.randn(1, 5), state) is None, "width"
        assert short_step(layer, x, state.double()) is None, "type of the state"
        assert short_step(layer, x, torch.nn.Parameter(state)) is None, "a subclass"
        assert short_step(layer, x, (state,)) is None, "a GRU takes one tensor"
        lstm = passnet.LSTM(4, 9, matrix=LowRankPlusDiagonal(2))
        assert short_step(lstm, x, state) is None, "an LSTM takes two"
        assert short_step(lstm, x, (state, state)) is not None
        for mode in (FlopCounterMode(display=False), DeviceContext("cpu")):
            with mode:
                assert short_step(layer, x, state) is None, mode
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            assert short_step(layer, dual, state) is None, "tangents"
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert short_step(layer, x, state) is None
        assert torch.vmap(lambda v: layer.step(v, state)[0])(x[None]).shape == (1, 1, 9)
        for register in (
            layer.register_forward_hook,
            layer.register_forward_pre_hook,
            register_module_forward_hook,
        ):
            with register(lambda *_: None):
                assert short_step(layer, x, state) is None, "hooks"
        assert short_step(layer, torch._neg_view(x), state) is None, "memory holds the negatives"
        assert short_step(layer, x, torch._neg_view(state)) is None, "likewise"
        for other in (
            passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2), backend="eager"),
            passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2), weight_norm=True),
            passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2), zoneout=0.1),
            passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2), zoneout=0.1).eval(),
            passnet.GRU(4, 9, matrix=BlockDiagonal(3)),
        ):
            assert short_step(other, x, state) is None
        both_ways = passnet.GRU(9, 9, matrix=LowRank(2), bidirectional=True)
        assert short_step(both_ways, state[0], torch.randn(2, 1, 9)) is None


@torch.no_grad()
def test_a_wrong_state_raises_the_usual_sentence() -> None:
    layer = passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2))
    with pytest.raises(ValueError, match="initial hidden state has shape"):
        layer.step(torch.randn(1, 4), torch.randn(2, 1, 9))


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str
)
@torch.no_grad()
def test_symbols_and_single_sequences_take_the_short_way_too(dtype) -> None:
    for layer in _layers(LowRankPlusDiagonal(5)):
        _, state = layer(torch.randn(2, 3, 7))
        alone = layer._join([part[:, 1] for part in layer._split(state)])
        symbols, features = torch.tensor([6, 0, 3]).to(dtype), torch.randn(7)
        for given, start in (
            (symbols, state),
            (symbols[1], alone),
            (features, alone),
        ):
            short = short_step(layer, given, start)
            assert short is not None
            torch.testing.assert_close(short[0], layer(given.unsqueeze(0), start)[0][0])
            torch.testing.assert_close(short[1], layer(given.unsqueeze(0), start)[1])


@torch.no_grad()
def test_what_is_no_symbol_raises_the_usual_sentence() -> None:
    layer = passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2))
    state = torch.randn(1, 2, 9)
    for wrong in (4, -1):
        with pytest.raises(ValueError, match=rf"symbol {wrong}: expected 0 to 3"):
            layer.step(torch.tensor([0, wrong]), state)
    with pytest.raises(TypeError, match="bool"):
        layer.step(torch.tensor([True, False]), state)
    with pytest.raises(TypeError, match="complex"):
        layer.step(torch.randn(2, dtype=torch.complex64), state)
    with pytest.raises(ValueError, match="input of a step has shape"):
        layer.step(torch.zeros(2, 1, 1, dtype=torch.int64), state)


@torch.no_grad()
def test_numbers_that_do_not_lie_row_after_row() -> None:
    for layer in _layers(LowRankPlusDiagonal(5)):
        count = len(layer.cells)
        parts = [torch.randn(45, 3, count).permute(2, 1, 0) for _ in layer.state_names]
        x, state = torch.randn(7, 3).t(), layer._join(parts)
        assert not x.is_contiguous() and not parts[0].is_contiguous()
        short = short_step(layer, x, state)
        assert short is not None
        torch.testing.assert_close(short[0], layer(x.unsqueeze(0), state)[0][0])


@torch.no_grad()
def test_a_state_without_axes_raises_the_usual_sentence() -> None:
    layer = passnet.GRU(4, 9, matrix=LowRankPlusDiagonal(2))
    with pytest.raises(ValueError, match="initial hidden state has shape"):
        layer.step(torch.randn(4), torch.tensor(0.0))


@torch.no_grad()
def test_an_output_may_be_changed_in_place() -> None:
    for layer in _layers(LowRankPlusDiagonal(5)):
        _, state = layer(torch.randn(2, 3, 7))
        output, following = layer.step(torch.randn(3, 7), state)
        before = layer._split(following)[0].clone()
        output.detach_().zero_()
        assert torch.equal(layer._split(following)[0], before)


@torch.no_grad()
def test_a_missing_number_stays_in_its_sequence() -> None:
    for matrix in MATRICES:
        for layer in _layers(matrix):
            x = torch.randn(2, 7)
            state = layer._join([torch.randn(len(layer.cells), 2, 45) for _ in layer.state_names])
            wanted = layer.step(x, state)[0][0]
            x[1] = torch.nan
            for part in layer._split(state):
                part[:, 1] = torch.nan
            assert torch.equal(layer.step(x, state)[0][0], wanted)


@torch.no_grad()
def test_a_cell_of_other_sizes_raises_and_reads_nothing_beyond() -> None:
    for kind, other, units in (
        (passnet.GRU, passnet.GRU, 12),
        (passnet.GRU, passnet.GRU, 5),
        (passnet.LSTM, passnet.GRU, 9),
    ):
        layer = kind(4, 9, matrix=LowRank(2))
        strange = other(4, units, matrix=LowRank(2)).cells[0]
        layer.cells[0].input_weight, layer.cells[0].bias = strange.input_weight, strange.bias
        layer.cells[0].recurrent = strange.recurrent
        state = layer._join([torch.randn(1, 2, 9) for _ in layer.state_names])
        assert short_step(layer, torch.randn(2, 4), state) is None
        with pytest.raises(ValueError, match="expected"):
            layer.step(torch.randn(2, 4), state)


@torch.no_grad()
def test_normalised_weights_are_not_used_as_they_are_stored() -> None:
    layer = passnet.GRU(4, 9, matrix=LowRank(2), weight_norm=True)
    x, state, cell = torch.randn(2, 4), torch.randn(1, 2, 9), layer.cells[0]
    for normalised in (None, cell, cell.recurrent):
        for part in (cell, cell.recurrent):
            part.weight_norm = part is normalised
        assert (short_step(layer, x, state) is None) == (normalised is not None)


@torch.no_grad()
def test_a_parameter_that_is_replaced_meanwhile_is_read_to_the_end(monkeypatch) -> None:
    layer = passnet.GRU(4, 9, matrix=LowRank(2))
    x, state = torch.randn(1, 4), torch.randn(1, 1, 9)
    owner, name = layer.cells[0].recurrent, "expand"
    ahead, replaced = CellStep.__call__, []

    def replacing(self, *given):
        """What another thread may do while the library computes."""
        old = weakref.ref(getattr(owner, name))
        setattr(owner, name, torch.nn.Parameter(torch.randn(3, 9, 2)))
        replaced.append(old() is not None)
        return ahead(self, *given)

    expected = layer.step(x, state)[0]
    monkeypatch.setattr(CellStep, "__call__", replacing)
    assert torch.equal(layer.step(x, state)[0], expected)
    assert replaced == [True]
