"""One prepared step of a GPU, on an emulated one: the same bits as a sequence of one step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from accuracy import assert_accurate
from layer_twins import doubled, randomised

import passnet
from passnet.config.matrix import BlockDiagonal
from passnet.equations import STRUCTURES
from passnet.layers import streaming
from passnet.ops.cpu import stream as cpu
from passnet.ops.cuda import large, small, stream
from passnet.ops.cuda.families import family_of
from passnet.ops.gru_scan.cuda import CudaGru
from passnet.ops.lstm_scan.cuda import CudaLstm

KINDS = {
    "GRU after": lambda *a, **k: passnet.GRU(*a, recurrent_bias=True, **k),
    "GRU before": lambda *a, **k: passnet.GRU(*a, reset="before", **k),
    "LSTM": passnet.LSTM,
}
MATRICES = [
    passnet.LowRank(3),
    passnet.LowRankPlusDiagonal(4),
    passnet.LowRankPlusDiagonal(4, tied=True),
    passnet.Dense(),
]
each_kind = pytest.mark.parametrize("kind", KINDS)


class Streaming:
    """Layers on the CPU whose short steps are those of an emulated GPU."""

    def __init__(self, chip, monkeypatch) -> None:
        self.chip, self.families = chip, []
        monkeypatch.setattr(cpu, "prepare", self._prepare)

    def _prepare(self, cell):
        step = stream.prepare(cell, self.chip)
        if step is not None:
            self.families.append(step._where[1])
        return step

    def scan(self, layer, x, state) -> list[torch.Tensor]:
        """The sequence of one step, layer by layer, as a GPU's engine runs it with factors."""
        kind = CudaLstm if isinstance(layer, passnet.LSTM) else CudaGru
        engine = kind(lambda _: self.chip, family_of)
        following = []
        for index, cell in enumerate(layer.cells):
            start = tuple(part[index] for part in layer._split(state))
            source = cell.inputs(x.unsqueeze(0), start[0].dtype)
            call = cell.scan(source, start, masks=None, holds=(None,) * len(start))
            following.append(engine.forward(call)[: len(start)])
            x = following[-1][0][0]
        return [torch.cat(part) for part in zip(*following, strict=True)]


@pytest.fixture
def gpu(emulator, monkeypatch):
    return lambda **limits: Streaming(emulator(**limits), monkeypatch)


def started(layer, batch: int):
    parts = [torch.randn(len(layer.cells), batch, layer.hidden_size) for _ in range(2)]
    return tuple(parts) if isinstance(layer, passnet.LSTM) else parts[0]


@torch.no_grad()
def assert_right(output: torch.Tensor, layer, x, state) -> None:
    """The accuracy rule, beside the layer's own sequence of one step on the CPU."""
    exact = [part.double() for part in layer._split(state)]
    wide = x.double() if x.is_floating_point() else x
    assert_accurate(
        output,
        reference=layer(x.unsqueeze(0), state)[0][0],
        truth=doubled(layer)(wide.unsqueeze(0), layer._join(exact))[0][0],
    )


def judged(gpu: Streaming, layer, batch: int, x=None) -> None:
    torch.manual_seed(0)
    randomised(layer)
    state = started(layer, batch)
    if x is None:
        x = torch.randn(batch, layer.input_size)
    with torch.no_grad():
        short = streaming.short_step(layer, x, state)
        assert short is not None
        output, following = short
        expected = gpu.scan(layer, x, state)
    assert torch.equal(output, expected[0][-1])
    assert all(map(torch.equal, layer._split(following), expected))
    assert_right(output, layer, x, state)


@each_kind
@pytest.mark.parametrize("matrix", MATRICES, ids=repr)
def test_a_prepared_step_is_a_sequence_of_one(gpu, kind, matrix):
    chip = gpu()
    judged(chip, KINDS[kind](5, 23, matrix=matrix), 3)
    assert chip.families == [small]


@each_kind
def test_of_stacked_layers(gpu, kind):
    chip = gpu()
    judged(chip, KINDS[kind](5, 23, 2, matrix=passnet.LowRankPlusDiagonal(4)), 2)
    assert chip.families == [small, small]


@each_kind
def test_of_inputs_too_wide_for_a_kernel(gpu, kind):
    judged(gpu(), KINDS[kind](70, 23, matrix=passnet.LowRankPlusDiagonal(4), bias=False), 3)


@each_kind
@pytest.mark.parametrize("width", [5, 70], ids=["few", "many"])
def test_of_symbols(gpu, kind, width):
    layer = KINDS[kind](width, 23, 2, matrix=passnet.LowRankPlusDiagonal(4))
    judged(gpu(), layer, 3, torch.tensor([width - 1, 0, 2]))


@each_kind
def test_of_a_large_layer(gpu, kind, monkeypatch):
    chip = gpu(processors=4)
    monkeypatch.setattr(stream, "family_of", lambda call, chip: large)
    with torch.no_grad():
        layer = KINDS[kind](5, 40, matrix=passnet.LowRankPlusDiagonal(4))
        state, x = started(layer, 2), torch.ones(2, 5)
        short = streaming.short_step(layer, x, state)
    assert chip.families == [large]
    assert_right(short[0], layer, x, state)


@each_kind
@torch.no_grad()
def test_a_parameter_that_changes_its_sign_in_place_goes_the_long_way(gpu, kind):
    layer, x = KINDS[kind](5, 23, matrix=passnet.LowRankPlusDiagonal(4)), torch.randn(2, 5)
    state, weight = started(layer, 2), layer.cells[0].input_weight
    gpu()
    assert streaming.short_step(layer, x, state) is not None
    weight.data = torch._neg_view(weight.data)
    assert streaming.short_step(layer, x, state) is None


def at_odd_addresses(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.flatten()
    return torch.cat((flat[:1], flat))[1:].view(tensor.shape)


@each_kind
@pytest.mark.parametrize("family", [small, large], ids=["small", "large"])
@torch.no_grad()
def test_of_tensors_that_begin_anywhere(gpu, kind, family, monkeypatch):
    """As parameters do that `vector_to_parameters` laid into one vector."""
    gpu(processors=4)
    monkeypatch.setattr(stream, "family_of", lambda call, chip: family)
    layer = KINDS[kind](5, 40, matrix=passnet.LowRankPlusDiagonal(4))
    x, parts = torch.randn(2, 5), layer._split(started(layer, 2))
    expected, _ = streaming.short_step(layer, x, layer._join(parts))
    for parameter in layer.parameters():
        parameter.data = at_odd_addresses(parameter.data)
    x, *parts = map(at_odd_addresses, (x, *parts))
    assert all(part.data_ptr() % 16 for part in (x, *parts, *layer.parameters()))
    output, _ = streaming.short_step(layer, x, layer._join(parts))
    assert torch.equal(output, expected)


def test_what_no_kernel_serves_goes_the_long_way(gpu):
    chip = gpu()
    x = torch.randn(2, 5)
    with torch.no_grad():
        for layer in (
            passnet.GRU(5, 24, matrix=BlockDiagonal(3)),
            passnet.GRU(5, 24, matrix=passnet.LowRank(3), weight_norm=True),
            passnet.GRU(5, 24, matrix=passnet.LowRank(3), backend="reference"),
        ):
            assert streaming.short_step(layer, x, started(layer, 2)) is None
        new = passnet.GRU(5, 24, matrix=passnet.LowRank(3))  # of which kernels know the shapes only
        new.cells[0].recurrent.structure = replace(STRUCTURES["low_rank"], name="new")
        assert streaming.short_step(new, x, started(new, 2)) is None
        double = passnet.GRU(5, 24, matrix=passnet.LowRank(3)).double()
        state = started(double, 2).double()
        assert streaming.short_step(double, x.double(), state) is None
        layer = passnet.GRU(5, 24, matrix=passnet.LowRank(3))
        layer.cells[0].bias.data = layer.cells[0].bias.data.double()
        assert streaming.short_step(layer, x, started(layer, 2)) is None
        layer.cells[0].bias.data = torch.zeros(24, 3).mT
        assert streaming.short_step(layer, x, started(layer, 2)) is None
        layer = passnet.GRU(5, 24, matrix=passnet.LowRank(3))
        chip.chip.unavailable = "there is no compiler"
        assert streaming.short_step(layer, x, started(layer, 2)) is None
