"""torch.compile through the CUDA engine, on a stand-in for the GPU: nothing breaks the graph."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch

import passnet
from passnet.ops import gru_backends, lstm_backends, unitary_backends
from passnet.ops.cuda import engine, unitary
from passnet.ops.cuda.chip import Chip


class Nothing:
    """A kernel that leaves its outputs as they were."""

    def launch(self, grid, threads, arguments, *, cooperative=False):
        pass


class StandIn(Chip):
    processors, shared_limit = 132, 227 * 1024

    def kernel(self, source, name, *, options, shared):
        return Nothing()


@pytest.fixture
def on_cuda(monkeypatch):
    chip = StandIn()
    for module in (engine, unitary):
        monkeypatch.setattr(module, "refuses_device", lambda *_: None)
    for backend in (*gru_backends(), *lstm_backends(), *unitary_backends()):
        if backend.name == "cuda":
            monkeypatch.setattr(backend._engine, "_chip_of", lambda _: chip)


def low_rank(kind: type[passnet.GRU | passnet.LSTM], units: int):
    return kind(3, units, matrix=passnet.LowRankPlusDiagonal(4))


@pytest.mark.parametrize(
    "make",
    [
        partial(low_rank, passnet.GRU),
        partial(low_rank, passnet.LSTM),
        partial(passnet.UnitaryRNN, 3),
    ],
    ids=["GRU", "LSTM", "uRNN"],
)
@pytest.mark.parametrize("units", [24, 1200])
def test_no_break(on_cuda, make, units):
    layer = make(units)
    x = torch.randn(4, 2, 3)
    assert layer.explain_backends(x)["cuda"] is None
    step = torch.compile(lambda x: layer(x)[0].sum(), fullgraph=True, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(x).backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
