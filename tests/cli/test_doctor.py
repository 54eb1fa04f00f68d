"""What `passnet doctor` says of engines and of packages."""

from __future__ import annotations

import importlib.metadata
import json

import torch

from passnet.cli import doctor, main


def test_doctor_says_which_backends_run(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = [row for row in found["backends"] if row["device"] == "cpu"]
    assert {row["backend"] for row in rows} >= {"eager", "reference"}
    assert all(row["can_run"] == "yes" for row in rows if row["backend"] == "eager")
    assert {row["cell"] for row in rows} == {"GRU", "LSTM", "UnitaryRNN", "Highway"}
    assert {"torch", "altair", "jinja2", "vl-convert-python"} <= set(found["versions"])


def test_doctor_begins_with_who_runs_layers_and_whether_that_is_fast(capsys, monkeypatch):
    def first_line():
        assert main(["doctor"]) == 0
        return capsys.readouterr().out.splitlines()[0]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("passnet.ops.cpu.library._installed", "the compiled CPU scan was not built")
    assert first_line() == (
        "GRU and LSTM in float32 on the CPU run on: eager (slow: the CPU's compiled scan cannot "
        "run, as the last table says)"
    )
    rows = [
        {"device": device, "cell": cell, "dtype": "float32", "backend": engine, "can_run": "yes"}
        for device, engine in (("cpu", "cpu"), ("cuda", "cuda"))
        for cell in ("GRU", "LSTM")
    ]
    assert list(doctor._engines(rows)) == [
        "GRU and LSTM in float32 on the CPU run on: cpu (compiled scan)",
        "GRU and LSTM in float32 on the GPU run on: cuda (compiled kernels)",
    ]


def test_doctor_says_what_needs_a_package_that_is_not_installed(capsys, monkeypatch):
    version = importlib.metadata.version
    missing = {"jinja2", "onnxruntime", "onnx", "triton"}

    def installed(name):
        if name in missing:
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name) if name != "triton" else "3.0"

    monkeypatch.setattr("importlib.metadata.version", installed)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for part in (
        "`passnet report --out`, `passnet reproduce` and `passnet bench --plot` need jinja2: pip "
        "install '.[report]' in passnet's folder\n",
        "\n`passnet export` needs onnx, onnxruntime: pip install '.[onnx]' in",
        "\ntriton is only needed for torch.compile on a GPU, not for passnet's own kernels\n",
    ):
        assert part in said
    assert "[tensorboard]" not in said
    missing.clear()
    assert main(["doctor"]) == 0
    assert "pip install" not in capsys.readouterr().out
