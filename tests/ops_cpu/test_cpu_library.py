"""Without its library the engine refuses with a sentence, and another one serves."""

from __future__ import annotations

import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import passnet
from passnet.ops import GruScan, LstmScan
from passnet.ops.backend import BackendRefused, choose
from passnet.ops.cpu import Library, installed, library, load
from passnet.ops.cpu.library import FOLDER
from passnet.ops.gru_scan.cpu import CpuGru
from passnet.ops.gru_scan.eager import EagerGru
from passnet.ops.lstm_scan.cpu import CpuLstm


def _call(dtype=torch.float32, structure="low_rank", device="cpu") -> GruScan:
    factors = {
        "low_rank": [(3, 6, 2), (3, 2, 6)],
        "block_diagonal": [(3, 2, 3, 3)],
    }[structure]
    place = {"dtype": dtype, "device": device}
    return GruScan(
        torch.zeros(3, 2, 1, 6, **place),
        torch.zeros(1, 6, **place),
        tuple(torch.zeros(*shape, **place) for shape in factors),
        structure,
        "after",
    )


def test_a_missing_library_is_a_reason(tmp_path: Path) -> None:
    missing = load(tmp_path)
    assert isinstance(missing, str)
    assert "no C compiler, or compiling failed" in missing
    engine = CpuGru(missing)
    assert engine.refuses(_call()) == missing
    chosen = choose((engine, EagerGru()), "auto", _call())
    assert chosen.name == "eager"
    with pytest.raises(BackendRefused, match="no C compiler"):
        choose((engine, EagerGru()), "cpu", _call())


def test_a_file_that_is_no_library_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "_scan.so").write_bytes(b"not a library")
    found = load(tmp_path)
    assert isinstance(found, str)
    assert "cannot be loaded" in found


@pytest.mark.skipif(isinstance(installed(), str), reason="no compiled scan here")
def test_a_library_of_other_sources_is_passed_over(tmp_path: Path) -> None:
    own = FOLDER / f"_scan{sysconfig.get_config_var('EXT_SUFFIX')}"
    digest, made = library._digest().encode(), own.read_bytes()
    assert made.count(digest) == 1
    (tmp_path / "_scan.a.so").write_bytes(made.replace(digest, b"0" * len(digest)))
    assert "other sources" in str(load(tmp_path))
    shutil.copy(own, tmp_path / "_scan.b.so")
    assert isinstance(load(tmp_path), Library)
    shutil.copy(own, tmp_path / own.name)
    found = load(tmp_path)
    assert isinstance(found, Library) and found._loaded._name.endswith(own.name)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (_call(torch.bfloat16), "not bfloat16"),
        (_call(torch.float16), "not float16"),
        (_call(structure="block_diagonal"), "no block-diagonal"),
        (_call(device="meta"), "on meta"),
    ],
)
def test_what_is_refused_and_why(call: GruScan, words: str) -> None:
    assert words in (CpuGru().refuses(call) or "")


@pytest.mark.skipif(isinstance(installed(), str), reason="no compiled scan here")
def test_wrong_shapes_raise_instead_of_reading_beyond() -> None:
    call = _call()
    wrong = GruScan(call.drive, torch.zeros(2, 6), call.factors, call.structure, "after")
    with pytest.raises(ValueError, match="initial is"):
        CpuGru().forward(wrong)
    with pytest.raises(ValueError, match="initial_cell is"):
        CpuLstm().forward(
            LstmScan(
                torch.zeros(4, 2, 1, 6),
                torch.zeros(1, 6),
                torch.zeros(1, 5),
                (torch.zeros(4, 6, 2), torch.zeros(4, 2, 6)),
                "low_rank",
            )
        )
    start = torch.zeros(1, 6)
    with pytest.raises(ValueError, match="drive has 3 gates: expected 4, those of lstm"):
        CpuLstm().forward(LstmScan(call.drive, start, start, call.factors, call.structure))
    expand, project = call.factors
    for name, changes in (
        ("masks", {"masks": torch.ones(2, 1, 6)}),
        ("hold", {"hold": torch.ones(2, 1, 3)}),
        ("initial", {"initial": torch.zeros(1, 6).double()}),
        ("project", {"factors": (expand, project[:2])}),
    ):
        with pytest.raises(ValueError, match=f"{name} is .*: expected"):
            CpuGru().forward(replace(call, **changes))
    factors = torch.zeros(4, 6, 2), torch.zeros(4, 2, 6)
    hold = {"hold": torch.ones(2, 1, 1), "hold_cell": torch.ones(2, 1, 3)}
    with pytest.raises(ValueError, match=r"hold_cell is .*: expected"):
        CpuLstm().forward(
            LstmScan(torch.zeros(4, 2, 1, 6), start, start, factors, "low_rank", **hold)
        )


@pytest.mark.skipif(isinstance(installed(), str), reason="no compiled scan here")
@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
def test_without_gradients_no_gates_are_kept(kind, monkeypatch) -> None:
    layer, x = kind(3, 6, matrix=passnet.LowRank(2), backend="cpu"), torch.randn(4, 2, 3)
    expected = layer(x)[0].detach()

    def nothing(self, call):
        raise AssertionError("there is nothing to keep")

    monkeypatch.setattr(CpuGru, "saved_like", nothing)
    monkeypatch.setattr(CpuLstm, "saved_like", nothing)
    with torch.no_grad():
        assert torch.equal(layer(x)[0], expected)


@pytest.mark.skipif(isinstance(installed(), str), reason="no compiled scan here")
def test_an_instruction_set_this_machine_lacks_is_refused() -> None:
    library = installed()
    assert isinstance(library, Library)
    assert library.instructions == library.supported[-1]
    with pytest.raises(ValueError, match="this machine has"):
        library.using("tricorder")
