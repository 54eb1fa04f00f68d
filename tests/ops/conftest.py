"""A stand-in for the GPU, on which the CUDA engine can be asked without one."""

from __future__ import annotations

import pytest

from passnet.ops import gru_backends, lstm_backends, unitary_backends
from passnet.ops.cuda import engine
from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.launches import Launches
from passnet.ops.unitary_scan import cuda as unitary


class Nothing(Launches):
    """A kernel that leaves its outputs as they were."""

    def start(self, grid, threads, arguments, cooperative):
        pass


class StandIn(Chip):
    processors, shared_limit = 132, 227 * 1024

    def kernel(self, source, name, *, options, shared):
        return Nothing()


@pytest.fixture
def on_cuda(monkeypatch) -> StandIn:
    """The chip that tensors are on, wherever they are."""
    chip = StandIn()
    for module in (engine, unitary):
        monkeypatch.setattr(module, "refuses_device", lambda *_: None)
    for backend in (*gru_backends(), *lstm_backends(), *unitary_backends()):
        if backend.name == "cuda":
            monkeypatch.setattr(backend._engine, "_chip_of", lambda _: chip)
    return chip
