"""torch.compile through the CUDA engine, on a stand-in for the GPU: nothing breaks the graph."""

from __future__ import annotations

import warnings

import pytest
import torch

import passnet
from passnet.layers.recurrent import RecurrentLayer
from passnet.ops.cuda import engine
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
    monkeypatch.setattr(engine, "refuses_device", lambda *_: None)
    for layer in (passnet.GRU(1, 2), passnet.LSTM(1, 2)):
        for backend in layer._backends():
            own = getattr(backend, "_engine", None)
            if isinstance(own, engine.CudaEngine):
                monkeypatch.setattr(own, "_chip_of", lambda _: chip)


@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
@pytest.mark.parametrize("units", [24, 1200])
def test_no_break(on_cuda, kind: type[RecurrentLayer], units):
    layer = kind(3, units, matrix=passnet.LowRankPlusDiagonal(4))
    x = torch.randn(4, 2, 3)
    assert layer.explain_backends(x)["cuda"] is None
    step = torch.compile(lambda x: layer(x)[0].sum(), fullgraph=True, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(x).backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
