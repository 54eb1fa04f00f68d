"""The page's section on speed: one current table, and every file of timings folded below it."""

from __future__ import annotations

import json
import re

import pytest

from passnet.cli import main
from passnet.report import ReportError
from passnet.report.page import render_page
from passnet.report.speedup import speedup_table


def test_the_speed_tables(tmp_path):
    row = {"shape": "GRU", "n": 128, "d": 24, "T": 784, "B": 20, "dtype": "float32"}
    row |= {"pass": "forward", "peak_bytes": 2**20}
    rows = [
        row | {"contender": "passnet", "milliseconds": 1.25},
        row | {"contender": "nn.GRU", "milliseconds": 5.0},
    ]
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"device": "made-up GPU", "rows": rows}))
    (folder / "b.json").write_text(json.dumps(rows))
    page = render_page([], benchmarks=folder)
    for part in ("made-up GPU", "1.25 ms", "5.00 ms", "4.0x", "1 MiB", "b: forward"):
        assert part in page
    assert '"speed-0"' in page and '"speed-1"' in page
    assert page.index("b: forward") < page.index("made-up GPU"), "the newest comes first"


def test_the_command_finds_timings_by_itself(tmp_path, monkeypatch):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    row = {"shape": "GRU", "n": 1, "d": 1, "T": 1, "B": 1, "pass": "forward", "milliseconds": 7.5}
    (folder / "a.json").write_text(json.dumps([row | {"contender": "passnet"}]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert main(["report", "runs", "--out", "page.html"]) == 0
    assert "7.50 ms" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("content", ["{", "{}", '[{"n": 1}]', "[7]"])
def test_damaged_timings(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ReportError, match=r"a\.json"):
        render_page([], benchmarks=tmp_path)


def test_one_current_table_and_the_files_folded_below(tmp_path):
    row = {"shape": "GRU", "n": 128, "d": 24, "T": 784, "B": 20, "pass": "forward+backward"}
    for day, theirs in (("01", 9.0), ("02", 3.0)):
        rows = [
            row | {"contender": name, "milliseconds": ms}
            for name, ms in (("passnet", 1.0), ("nn.GRU", theirs))
        ]
        record = {"machine": {"device": "cuda"}, "date": f"2026-01-{day}", "rows": rows}
        (tmp_path / f"2026-01-{day}.json").write_text(json.dumps(record))
    page = render_page([], benchmarks=tmp_path)
    section = page[page.index('id="speed"') : page.index('id="discrepancies"')]
    current, folded = section.split('<details id="timings">')
    words = re.findall(r"<t[hd](?: [^>]*)?>([^<]*)<", current)
    written = [line.strip("| ").split(" | ") for line in speedup_table(tmp_path).splitlines()]
    assert (
        words == [*written[0], *written[2]] == ["units, rank", "ordinary call", "128, 24", "3.0x"]
    )
    assert "2026-01" not in current and "All 2 files of timings" in folded
    assert folded.index("2026-01-02") < folded.index("2026-01-01")


def test_timings_without_ranks_are_in_no_current_table(tmp_path):
    row = {"shape": "GRU", "n": 128, "T": 784, "B": 20, "pass": "forward+backward"}
    rows = [row | {"contender": name, "milliseconds": 1.0} for name in ("passnet", "nn.GRU")]
    (tmp_path / "a.json").write_text(json.dumps({"device": "cuda", "rows": rows}))
    (tmp_path / "b.json").write_text("[]")
    page = render_page([], benchmarks=tmp_path)
    assert 'id="speedups"' not in page and "There are no timings in this file" in page
