"""Scripts of `benchmarks/` where there is no GPU: they say so, and what their options mean."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"
OTHERS = ("cuda_scan", "gpu", "gpu.scan_cases", "accuracy")
"""What these scripts import from beside them and from the tests."""


@pytest.fixture
def script(monkeypatch):
    """A function that runs a script as Python does; nothing else has been imported for it."""
    paths = [path for path in sys.path if Path(path).name not in ("benchmarks", "tests")]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def run(name: str, *arguments: str, known: tuple[str, ...] = ()) -> None:
        monkeypatch.setattr(sys, "path", [str(FOLDER), *paths])
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        for other in set(OTHERS) - set(known):
            monkeypatch.delitem(sys.modules, other, raising=False)
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        assert ended.value.code == (0 if "--help" in arguments else 2)

    return run


@pytest.mark.parametrize("name", ["cuda_host", "cuda_phases", "cuda_race", "cuda_scan"])
def test_a_script_without_a_gpu_says_so(script, capsys, name):
    script(name)
    assert f"{name}.py: error: there is no CUDA device, and it is " in capsys.readouterr().err


def test_a_script_finds_the_cases_by_itself(script, capsys):
    script("cuda_phases")
    script("cuda_phases", known=("cuda_scan",))
    assert capsys.readouterr().err.count("there is no CUDA device") == 2


def test_every_option_of_the_scans_is_explained(script, capsys):
    script("cuda_scan", "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "Correctness and time of every fused CUDA scan" in said
    for option in (
        "--check hold outputs",
        "--fuzz COUNT the same for so many random cases",
        "--time time both passes",
        "--baseline time cuDNN's layers",
        "--explore compile and time every layout",
        "--one CELL N D T B PASS run one pass three times",
    ):
        assert option in said
