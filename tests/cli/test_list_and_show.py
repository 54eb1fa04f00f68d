"""`passnet list` and `passnet show`: what there is, in a terminal and in a pipe."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from passnet.cli import main
from passnet.cli.streams import terminal_width
from passnet.experiments import names

RESULTS = Path(__file__).parents[2] / "results"


def test_list_needs_no_torch_and_names_every_preset():
    code = (
        "import sys\nfrom passnet.cli import main\nstatus = main(['list', '--json'])\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == list(names())
    wanted = {"name", "task", "cell", "matrix", "paper_value", "metric", "table"}
    assert wanted | {"parameters", "parameters_paper"} <= set(rows[0])


def test_list_filters_and_says_when_nothing_matches(capsys):
    assert main(["list", "psmnist/lrd"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and "94.7 %" in lines[-1] and "41.2k" in lines[-1]
    assert main(["list", "psMNIST/LRD"]) == 0 and capsys.readouterr().out.splitlines() == lines
    for more, out in (([], ""), (["--json"], "[]\n")):
        assert main(["list", "nonsense", *more]) == 2
        said = capsys.readouterr()
        assert said.out == out and "passnet: no preset's name contains 'nonsense'" in said.err


@pytest.mark.parametrize(
    ("width", "there", "left_out"),
    [
        (80, {"paper", "metric", "params"}, {"printed", "size", "cell", "matrix"}),
        (120, {"params", "printed", "size", "cell"}, {"matrix"}),
        (200, {"printed", "cell", "matrix", "in the paper"}, set()),
    ],
)
def test_list_fits_a_terminal_and_says_what_is_next(width, there, left_out, capsys, monkeypatch):
    assert main(["list"]) == 0
    piped = capsys.readouterr().out
    assert len(piped.splitlines()) == 1 + len(names()) and "passnet show" not in piped
    monkeypatch.setattr("passnet.cli.listing.terminal_width", lambda: width)
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    found = set(re.split(r"\s{2,}", shown.splitlines()[0]))
    assert there <= found and not left_out & found
    assert set(re.split(r"\s{2,}", piped.splitlines()[0])) >= found
    after = shown.partition("\n\n")[2]
    assert "paper: the test score" in after
    assert "passnet show NAME" in after and "passnet train NAME" in after


def test_a_terminal_is_as_wide_as_it_says(monkeypatch):
    monkeypatch.setenv("COLUMNS", "93")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert terminal_width() is None
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert terminal_width() == 93


def test_show_says_what_is_recorded_and_what_to_type(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    monkeypatch.chdir(RESULTS.parent)
    name = "psmnist/lrd-gru-256-24"
    for more in ([], ["--set", "batch_size=40", "model.matrix=LowRank(4)"]):
        assert main(["show", name, *more]) == 0
        *_, before, fetch, train = capsys.readouterr().out.splitlines()
        assert fetch == "its data are missing, so run first: passnet data fetch mnist"
        assert shlex.split(train.removeprefix("to train it: ")) == ["passnet", "train", name, *more]
        recorded = before.startswith(f"recorded in results/{name}: 93.38 ± 0.46 %, seeds 0-2; ")
        assert recorded == (not more)
    monkeypatch.chdir(tmp_path)
    assert main(["show", "quick/copy"]) == 0
    said = capsys.readouterr().out
    assert "recorded" not in said and "not here" not in said


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (
            "psmnist/gru-128",
            "digits of MNIST: 50 000 for training, 10 000 for validation and 10 000",
        ),
        ("beyond/psmnist-21k-all-digits", "for the test, both of the first two used for training"),
        ("quick/sequential-digits", "synthetic digits: 6 000 for training, 1 000 for validation"),
        ("quick/copy", "synthetic sequences: new ones for every update, 1 000 for validation"),
        ("copy-500/gru-128", "synthetic sequences: 100 000 for training, 10 000 for validation"),
        ("char-lm/gru-1000", "Penn Treebank"),
    ],
)
def test_show_tells_which_data_are_used(words, data, capsys):
    assert main(["show", words]) == 0
    said = capsys.readouterr().out.replace("\u202f", " ")
    assert data in next(line for line in said.splitlines() if line.startswith("data: "))
    assert ("task.sizes" in said) == (words == "quick/sequential-digits")


def test_show_tells_shapes_counts_backends_and_settings(capsys):
    assert main(["show", "psmnist/lrd-gru-256-24"]) == 0
    out = capsys.readouterr().out
    for text in ("3x256x24", "41994 as built", "41226 by the paper", "eager", "model.carry_bias"):
        assert text in out


def test_list_writes_all_counts_in_one_way(capsys):
    assert main(["list"]) == 0
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    for name, counts in (
        ("copy-500/lrd-gru-128-50", ["44.4k", "41.7k"]),
        ("psmnist/gru-128", ["51.3k", "51.0k"]),
        ("char-lm/gru-1000", ["3.21M", "3.11M"]),
        ("char-lm/gru-3298-dropout", ["33.31M", "33.0M"]),
        ("char-lm/lrd-gru-1000-64", ["594.1k", "490k"]),
        ("quick/character-stream", ["64.9k", "-"]),
    ):
        at = lines[name].index(counts[0])
        assert lines[name][at : at + 2] == counts


def test_show_counts_what_it_can_and_leaves_out_what_it_cannot(capsys, tmp_path):
    (tmp_path / "mine.txt").write_text("abab cdcd abab cdcd\n" * 60)
    for more, built, counted in (
        ([], 64947, 45363),
        (["--text", str(tmp_path / "mine.txt")], 31111, 28423),
    ):
        assert main(["show", "quick/character-stream", *more]) == 0
        counts = f"parameters: {built} as built, {counted} by the paper's convention\n"
        assert counts in capsys.readouterr().out
    assert main(["show", "quick/highway-digits"]) == 0
    shown = capsys.readouterr().out
    assert "parameters: 65802 as built\n" in shown
    assert "no: the CUDA kernels run on a GPU and this call is on cpu" in shown


def test_show_json_follows_overrides(capsys):
    assert main(["show", "quick/copy", "--set", "model.size=40", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["experiment"]["model"]["size"] == 40
    assert shown["experiment"]["protocol"] == "ours"
