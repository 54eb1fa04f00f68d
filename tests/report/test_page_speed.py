"""The page's section on speed: one current table, and every file of timings folded below it."""

from __future__ import annotations

import json
import re

import pytest

from passnet.cli import main
from passnet.report import ReportError
from passnet.report.charts import speed_chart
from passnet.report.leading import FASTEST, LOOKS, leading, leading_table
from passnet.report.page import render_page
from passnet.report.speed import read_speed
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
    current, folded = section.split('<details id="timings" class="on-screen">')
    words = re.findall(r"<t[hd](?: [^>]*)?>([^<]*)<", current)
    written = [
        line.strip("| ").split(" | ") for line in speedup_table(read_speed(tmp_path)).splitlines()
    ]
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


def timings_of(folder, **milliseconds):
    row = {"shape": "GRU", "n": 128, "d": 24, "T": 784, "B": 20, "pass": "forward+backward"}
    rows = [row | {"contender": n, "milliseconds": ms} for n, ms in milliseconds.items()]
    (folder / "a.json").write_text(json.dumps({"device": "made-up GPU", "rows": rows}))
    return read_speed(folder)[0]


def test_a_chart_of_timings_has_few_series_each_with_its_own_colour_and_shape(tmp_path):
    names = ["passnet", "nn.GRU", "nn.GRUCell", "loop", "compiled loop", "nn.LSTM(proj_size=24)"]
    ways = ["", " bf16", " tf32", " graph", " bf16 graph", " graphed calls"]
    times = {f"{name}{way}": 5.0 + len(way) for name in names for way in ways}
    file = timings_of(tmp_path, **times)
    series = leading(file.tables[0].timings)
    assert [one.title for one in series] == list(LOOKS) and len(series) == 6
    encoding = speed_chart(series)["encoding"]
    for look in ("color", "shape"):
        assert len(set(encoding[look]["scale"]["range"])) == len(series)
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)


def test_the_fastest_of_torch_is_of_any_precision_and_way_and_named(tmp_path):
    file = timings_of(
        tmp_path, **{"passnet": 1.0, "nn.GRU": 9.0, "nn.GRU tf32 graph": 4.0, "nn.GRU bf16": 6.0}
    )
    table = leading_table(file)
    assert table.contenders == ("passnet", "torch.nn", FASTEST)
    (_, (_, theirs, fastest)), *more = table.rows
    assert not more
    assert (fastest.text, fastest.times, fastest.which) == (
        "4.00 ms",
        "4.0x",
        "torch.nn tf32 graph",
    )
    assert (theirs.text, theirs.which) == ("9.00 ms", "")
    alone = timings_of(tmp_path, **{"passnet": 1.0, "nn.GRU": 9.0})
    assert leading_table(alone).contenders == ("passnet", "torch.nn")


def test_the_newest_file_of_each_machine_is_open(tmp_path):
    row = {"shape": "GRU", "n": 1, "d": 1, "T": 1, "B": 1, "pass": "forward", "milliseconds": 7.5}
    for day, device in ((1, "cpu"), (2, "cuda"), (3, "cpu")):
        record = {"device": device, "date": f"day {day}", "rows": [row | {"contender": "passnet"}]}
        (tmp_path / f"{day}.json").write_text(json.dumps(record))
    page = render_page([], benchmarks=tmp_path)
    files = re.findall(r'<details class="file"( open)?>\n<summary>.*?(day \d)', page)
    assert files == [(" open", "day 3"), (" open", "day 2"), ("", "day 1")]


def test_all_contenders_stand_below_each_other(tmp_path):
    row = {"n": 128, "d": 24, "T": 784, "B": 20, "pass": "forward", "milliseconds": 7.5}
    rows = [row | {"contender": "passnet", "shape": f"shape {k}"} for k in range(7)]
    rows += [row | {"contender": "only once", "shape": "shape 0"}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    page = render_page([], benchmarks=tmp_path)
    tables = re.findall(r"part \d of \d</span>.*?</table>", page, re.DOTALL)
    assert [table.count('<th scope="col" class="number">') for table in tables] == [4, 3]
    assert ["only once" in table for table in tables] == [True, False]
