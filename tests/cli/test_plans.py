"""What `passnet reproduce --dry-run` says of times and of runs that were cut short."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from passnet.cli import main
from passnet.report.numbers import duration

RESULTS = Path(__file__).parents[2] / "results"


def reproduce(*arguments: str) -> int:
    return main(["reproduce", *arguments, "--device", "cpu"])


def test_a_plan_says_how_long_it_takes_and_what_was_cut_short(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    shutil.copytree(RESULTS / "char-lm", tmp_path / "results" / "char-lm")

    def plan(width=None):
        monkeypatch.setattr("passnet.cli.plans.terminal_width", lambda: width)
        assert reproduce("table2", "--dry-run") == 0
        return capsys.readouterr().out.replace("\u202f", " ").splitlines()

    lines = plan()
    rows = {line.split()[0]: re.split(r"\s{2,}", line)[1:] for line in lines if line[:4] == "char"}
    assert lines[1].split() == [
        "preset", "there", "cut", "short", "missing", "updates", "time", "of", "one",
    ]  # fmt: skip
    assert rows["char-lm/gru-1000"] == ["0", "1, 2", "≤ 1 000 000", "6 min"]
    assert rows["char-lm/gru-1000-dropout"] == ["0", "1, 2", "≤ 1 000 000", "≤ 68 min"]
    assert rows["char-lm/gru-3298-dropout"] == ["0, 1, 2", "≤ 1 000 000", "not recorded"]
    said = "\n".join(lines)
    for part in (
        "39 runs: 6 there, 6 cut short, 27 missing\ntime: at most 30.8 h for 30 of them, one after",
        "on cuda:0 (NVIDIA H200), which other runs may have shared\n",
        "\n≤: all updates at the recorded pace; such a run may stop early\n",
        "\ntime: unknown for 3 of them: no run of the preset is recorded\n",
        "\n  char-lm/lrd-gru-5459-64-dropout seed 0 has 95 000 of at most 1 000 000 updates; may "
        "stop early\n",
        "\ndata are missing, so run first: passnet data fetch ptb\n",
    ):
        assert part in said
    assert max(map(len, plan(80))) <= 80


def test_a_plan_without_results_knows_no_times(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert reproduce("copy-500", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "not recorded\n12 runs: 12 missing\ntime: unknown for them: no run" in said
    assert "hours" not in said and "passnet data" not in said and "cut short" not in said


def test_of_a_run_that_goes_on_only_the_rest_is_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "addition-750/lr-gru-128-24"
    shutil.copytree(RESULTS / name / "seed-0", tmp_path / "results" / name / "seed-0")
    begun = shutil.copytree(RESULTS / name / "seed-1", tmp_path / "runs" / name / "seed-1")
    (begun / "result.json").unlink()
    lines = (begun / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["update"] <= 7250]
    (begun / "metrics.jsonl").write_text("".join(kept))
    taken = json.loads((tmp_path / "results" / name / "seed-0" / "result.json").read_text())
    reached = max(json.loads(line)["update"] for line in kept)
    assert reproduce("addition", "--seeds", "2", "--dry-run") == 0
    rest = duration(taken["seconds"] * (1 - reached / 14_500))
    assert f"\ntime: about {rest} for them, one after another" in capsys.readouterr().out
