"""Mistakes on the command line, data files, and help that teaches."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

from passnet.cli import main
from passnet.cli.errors import explained


@pytest.mark.parametrize(
    "words",
    [
        "--set model.size=40 batch_size=3 quick/copy",
        "--set model.size=40 quick/copy --set batch_size=3",
        "--set model.size=40 --json --set batch_size=3 quick/copy",
        "--set=model.size=40 quick/copy --set batch_size=3",
        "quick/copy --set model.size=40 batch_size=3",
    ],
)
def test_a_name_may_stand_behind_the_settings(words, capsys):
    assert main(["show", *words.split(), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["experiment"]
    assert (shown["name"], shown["model"]["size"], shown["batch_size"]) == ("quick/copy", 40, 3)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["train"], ["no preset was named", "passnet list", "before the options"]),
        (["show", "--set", "model.size=40"], ["no preset was named"]),
        (["train", "--set", "updates", "quick/copy"], ["no preset was named", "updates=20"]),
        (["train", "--set", "updates=2", "quick/cop"], ["'quick/cop'", "meant 'quick/copy'"]),
        (["train", "--set", "updates=2", "addition"], ["'addition'", "'quick/addition'"]),
        (["train", "quick/copy", "--set", "updates=2", "seed"], ["got 'seed', expected key=value"]),
        (["show", "--set", "seed=2", "quick/copy", "x"], ["quick/copy and x", "one preset"]),
        (["show", "psmnist/lrd-gru-256-42"], ["perhaps you meant 'psmnist/lrd-gru-256-24'"]),
        (["train", "quick/copy", "--set", "model.siz=3"], ["'siz'", "'model.size'"]),
        (["train", "quick/copy", "--set", "lr=3"], ["'lr'", "`passnet show NAME` lists the keys"]),
        (["train", "runs/quick/copy"], ["there is no folder runs/quick/copy", "of a run"]),
        (
            ["train", "psmnist/gru-128", "--data-dir", "no"],
            ["no (there is no such folder), ", "--"],
        ),
        (["train", "quick/copy", "--set", "batch_size=many"], ["batch_size", "many", "whole"]),
        (
            ["show", "quick/highway-digits", "--set", "model.matrix=dense"],
            ["dropout_bottleneck", "Dense()", "LowRank"],
        ),
        (
            ["train", "quick/sequential-digits", "--set", "batch_size=6001"],
            ["batch_size: got 6001", "give at most 6000"],
        ),
        (["train", "quick/highway-digits", "--set", "batch_size=1"], ["batch norm", "larger"]),
        (["train", "quick/highway-digits", "--set", "accumulate=100"], ["accumulate=100", "fewer"]),
        (["show", "quick/copy", "--set", f"seed={2**64}"], [f"seed: got {2**64}", str(2**64 - 1)]),
        (["show", "quick/copy", "--set", f"seed={'9' * 5000}"], ["seed: got ", "a whole number"]),
        (["train", "quick/copy", "--seed", str(2**64)], [f"seed: got {2**64}"]),
        (["train", "quick/copy", "--text", "x.txt"], ["--text", "character", "copy task"]),
        (["train", "quick/character-stream", "--text", "none.txt"], ["no file", "none.txt"]),
        (
            ["train", "quick/copy", "--seeds", "a..b"],
            [
                "--seeds a..b: expected a range or a list of distinct whole numbers, such as 0..4 "
                "or 1,5,7"
            ],
        ),
        (["train", "quick/copy", "--seeds", "4..1"], ["4..1", "0..4"]),
        (["train", "quick/copy", "--seeds", "1,1"], ["1,1", "distinct"]),
        (
            ["train", "quick/copy", "--seeds", "3"],
            ["--seeds 3: write --seed 3 for that seed, or --seeds 0..2 for 3 seeds"],
        ),
        (
            ["train", "quick/copy", "--seeds", "1"],
            ["--seeds 1: write --seed 1 for that seed, or a range such as 0..4"],
        ),
        (["train", "quick/copy", "--seeds", "9" * 5000], ["expected a range"]),
        (["reproduce", "table1", "--seeds", "9" * 5000], ["expected a range"]),
        (
            ["train", "quick/copy", "updates=3"],
            ["no preset is called 'updates=3': perhaps --set updates=3"],
        ),
        (["train", "quick/copy", "--seeds", "0..1", "--seed", "3"], ["--seed and --seeds"]),
        (["train", "quick/copy", "--device", "bogus"], ["device 'bogus'", "'cuda:1'"]),
        (["train", "."], [". is a folder without experiment.json", "passnet list"]),
        (["bench", "--device", "bogus"], ["device 'bogus'", "'cuda:1'"]),
        (["bench", "--out", "none/x.json"], ["--out none/x.json", "no folder none"]),
        (["bench", "--plot", "none/x.svg"], ["--plot none/x.svg", "no folder none"]),
        (["bench", "--plot", "x.bogus"], ["x.bogus", ".svg, .png, .pdf or .html"]),
        (["evaluate", "none"], ["there is no folder none", "give the folder of a run"]),
        (["report", "none"], ["no folder none"]),
        (["report", "."], ["no run was found in ."]),
        (["report", ".", "--out", "x.html", "--benchmarks", "none"], ["no folder none"]),
        (["report", ".", "--out", "none/x.html"], ["--out none/x.html", "no folder none"]),
        (["report", ".", "--out", "x.html", "--json"], ["--json and --out x.html", "give one"]),
        (["report", ".", "--trials", "--json"], ["--trials and --json", "leave --trials out"]),
        (["report", ".", "--benchmarks", "b"], ["--benchmarks b without --out", "give --out"]),
        (["report", ".", "--out", "x.pdf"], ["--out x.pdf", "ends in .html, not in .pdf"]),
        (["reproduce", "table1", "--out", "x.json"], ["--out x.json", "ends in .html"]),
        (["train", "quick/addition", "--set", "epochs=1"], ["epochs=1", "give updates instead"]),
        (["data", "verify", "imagenet"], ["imagenet", "mnist", "ptb"]),
    ],
)
def test_mistakes_end_in_one_sentence(arguments, parts, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith("passnet: ") and said.err.count("\n") == 1
    for part in parts:
        assert part in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "--repeats", "0"],
        ["bench", "--repeats", "-3"],
        ["bench", "--repeats", "many"],
        ["train", "quick/copy", "--at-once", "0"],
        ["train", "quick/copy", "--seed", "x"],
        ["train", "quick/copy", "--minutes", "0"],
        ["sample", "run", "--length", "-5"],
        ["sample", "run", "--seed", str(2**64)],
        ["sample", "run", "--seed", "any"],
        ["sample", "run", "--temperature", "-1"],
        ["sample", "run", "--temperature", "nan"],
        ["sample", "run", "--temperature", "inf"],
        ["sample", "run", "--temperature", "warm"],
    ],
)
def test_numbers_that_make_no_sense(arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    *_, option, number = arguments
    said = capsys.readouterr().err
    assert f"argument {option}: '{number}' is not a" in said and "such as" in said


def test_data_lists_and_verifies_what_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    assert main(["data", "list", "--json", "--data-dir", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["dataset"] for row in rows} == {"mnist", "ptb"}
    assert all(row["state"] == "missing" for row in rows)
    assert main(["data", "list", "--data-dir", str(tmp_path / "none")]) == 0
    *_, looked, fetch = capsys.readouterr().out.splitlines()
    assert looked.startswith(f"looked in {tmp_path}/none (there is no such folder), ")
    assert fetch == f"to get what is missing: passnet data fetch --data-dir {tmp_path}/none"
    for more in ([], ["--json"]):
        assert main(["data", "verify", "ptb", "--data-dir", str(tmp_path), *more]) == 1
        advice = f"passnet: run `passnet data fetch ptb --data-dir {tmp_path}`\n"
        assert capsys.readouterr().err == advice
    assert main(["data", "verify"]) == 1
    assert capsys.readouterr().err == "passnet: run `passnet data fetch mnist ptb`\n"


@pytest.mark.parametrize(
    ("words", "parts"), [([], ["reproduce", "--version"]), (["data"], ["fetch", "download"])]
)
def test_a_command_line_without_a_command_is_answered_with_the_help(words, parts, capsys):
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("usage: passnet")
    assert [part for part in parts if part not in said.err] == []


def test_the_bench_explains_itself_in_short_paragraphs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "102")
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    paragraphs = capsys.readouterr().out.split("\n\n")[1:4]
    assert [text.split()[0] for text in paragraphs] == ["Times", "First,", "The"]
    assert max(text.count("\n") for text in paragraphs) < 4


def in_shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        f"'{sys.executable}' -m passnet {words}",
        shell=True,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a stream that is always full")
@pytest.mark.parametrize("words", ["list", "list --json", "train --help"])
def test_output_without_room_is_one_sentence(words):
    done = in_shell(f"{words} >/dev/full")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("passnet: output could not be written (No space left")


def test_a_place_that_may_not_be_read_is_one_sentence(capsys):
    # As root, who may read everything, no command meets one.
    def command():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "secret/run")

    assert explained(command) == 2
    said = capsys.readouterr().err
    assert said.startswith("passnet: secret/run: Permission denied") and said.count("\n") == 1


def test_closed_streams_are_no_fault():
    whole = in_shell("list")
    assert (whole.returncode, whole.stderr) == (0, "")
    assert in_shell("list 2>&-").stdout == whole.stdout
    silent = in_shell("list >&- 2>&-")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    # What is said on a closed standard error must not come out on standard output.
    wrong = in_shell("show nonsense 2>&-")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_letters_the_encoding_lacks_are_spelled_out():
    done = in_shell("train --help", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "cuda:1 \\u2026;" in done.stdout


COMMANDS = [
    "list",
    "show",
    "train",
    "evaluate",
    "sample",
    "export",
    "data",
    "report",
    "reproduce",
    "bench",
    "doctor",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    assert len(capsys.readouterr().out) > 200


@pytest.mark.parametrize("command", [[], *([command] for command in COMMANDS)])
@pytest.mark.parametrize("width", [80, 120])
def test_help_fits_a_terminal(command, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        (
            "train",
            [
                "[--seeds SEEDS]",
                "[--at-once N]",
                "[--minutes MINUTES]",
                "0..4",
                "one seed use --seed",
            ],
        ),
        (
            "reproduce",
            [
                "[--seeds SEEDS]",
                "how many seeds per row",
                "default 3: seeds 0, 1 and 2",
                "or which ones",
                "0..4",
                "passnet data fetch",
                "passnet bench",
            ],
        ),
    ],
)
def test_help_names_values_and_gives_examples(command, parts, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert [part for part in parts if part not in said] == []
