"""torch.compile through the CUDA engine, on a stand-in for the GPU: nothing breaks the graph."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch

import passnet
from passnet.ops import BackendRefused
from passnet.ops.cuda import compile, driver


def low_rank(kind: type[passnet.GRU | passnet.LSTM], units: int):
    return kind(3, units, matrix=passnet.LowRankPlusDiagonal(4))


LAYERS = pytest.mark.parametrize(
    "make",
    [
        partial(low_rank, passnet.GRU),
        partial(low_rank, passnet.LSTM),
        partial(passnet.UnitaryRNN, 3),
    ],
    ids=["GRU", "LSTM", "uRNN"],
)


@LAYERS
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


@LAYERS
def test_where_nothing_can_be_compiled_another_engine_serves(on_cuda, monkeypatch, make):
    monkeypatch.setattr(on_cuda, "unavailable", "there is no compiler here")
    layer = make(24)
    x = torch.randn(4, 2, 3)
    assert layer.explain_backends(x)["cuda"] == "there is no compiler here"
    layer(x)[0].sum().backward()
    layer.backend = "cuda"
    with pytest.raises(BackendRefused, match=r"there is no compiler here\. Use backend='auto'"):
        layer(x)


def test_what_a_gpu_needs(monkeypatch):
    monkeypatch.setattr(driver, "device_limits", lambda device: (80, 98304, "sm_75"))
    assert "8.0 or above, and this is sm_75" in str(driver.why_not_compiled(0))
    monkeypatch.setattr(driver, "device_limits", lambda device: (132, 232448, "sm_90"))

    def none():
        raise compile.CompileError("NVRTC was not found; tried: nothing.")

    monkeypatch.setattr(driver, "nvrtc", none)
    assert driver.why_not_compiled(0) == "NVRTC was not found; tried: nothing"
    monkeypatch.setattr(driver, "nvrtc", lambda: None)
    assert driver.why_not_compiled(0) is None


def test_a_damaged_file_of_the_cache_is_made_anew(monkeypatch, tmp_path):
    class Compiler:
        version = (13, 0)

        def compile(self, source, *, arch, options):
            return b"whole"

    monkeypatch.setattr(compile, "nvrtc", Compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compile.cubin("text", arch="sm_90") == b"whole"
    (kept,) = compile.cache_folder().iterdir()
    kept.write_bytes(b"ha")
    assert compile.cubin("text", arch="sm_90") == b"ha"
    assert compile.cubin("text", arch="sm_90", anew=True) == b"whole"
    assert compile.cubin("text", arch="sm_90") == b"whole"
    assert list(compile.cache_folder().iterdir()) == [kept]
