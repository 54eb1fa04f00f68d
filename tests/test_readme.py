"""README and docs say nothing that does not run or that the results do not hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import passnet
from passnet.cli import main
from passnet.experiments import names
from passnet.report import has_marks, readme_disagreement

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.S)


def test_its_example_runs(capsys):
    (code,) = blocks("python")
    assert len(code.strip().splitlines()) <= 12
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "420000"
    assert "420000; torch.nn.GRU(10, 1000) has 3036000" in code
    assert passnet.count_parameters(torch.nn.GRU(10, 1000)) == 3036000


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_the_code_in_docs_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(compile(code, page.name, "exec"), {})


def test_its_commands_exist(capsys):
    lines = [
        line.partition("#")[0].split() for block in blocks("sh") for line in block.splitlines()
    ]
    commands = [words for words in lines if words[:1] == ["passnet"]]
    assert len(commands) >= 6
    for words in commands:
        with pytest.raises(SystemExit) as left:
            main([words[1], "--help"])
        assert left.value.code == 0
        for word in words[2:]:
            if "/" in word and not word.startswith("runs"):
                assert word in names()


def test_it_counts_the_presets():
    assert f"{len(names())} presets" in README.read_text()


def test_its_tables_are_those_of_the_files_in_the_repository():
    folders = [ROOT / "results"]
    assert readme_disagreement(README, folders, ROOT / "benchmarks" / "results") is None
    assert has_marks(README, "speed")
