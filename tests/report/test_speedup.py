"""The README's table of speed: ratios of one run, from the newest file that has a shape."""

from __future__ import annotations

import json

from passnet.config.contender import PRECISIONS, WAYS, ContenderName
from passnet.report.speed import read_speed
from passnet.report.speedup import COLUMNS, speedup_table

CALL, GRAPH, FASTEST, BOTH, CPU = (column.title for column in COLUMNS)
LAYERS = ("passnet", "nn.GRU")


def write(folder, name, device, times, *, n=128, d=24, shape="copy: GRU", kind="forward+backward"):
    rows = [
        {"shape": shape, "n": n, "d": d, "T": 10, "B": 2, "pass": kind, "contender": contender}
        | {"milliseconds": milliseconds, "peak_bytes": 1}
        for contender, milliseconds in times.items()
    ]
    path = folder / f"{name}.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    path.write_text(json.dumps({"machine": {"device": device}, "rows": before + rows}))


def cells(folder):
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in speedup_table(read_speed(folder)).splitlines()
        if line.startswith("|")
    ]
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}


def test_both_are_run_the_same_way(tmp_path):
    times = {"passnet": 2.0, "passnet graph": 1.0, "nn.GRU": 4.0, "nn.GRU graph": 3.0}
    write(tmp_path, "2026-01-01", "cuda (a GPU)", times | {"nn.GRU graphed calls": 1.0})
    assert cells(tmp_path) == {"128, 24": {CALL: "2.0x", GRAPH: "3.0x"}}


def test_every_way_of_calling_that_bench_times_is_read(tmp_path):
    times = {str(ContenderName(layer, way=way)): 1.0 for layer in LAYERS for way in WAYS}
    times |= {str(ContenderName(layer, p)): 1.0 for layer in LAYERS for p in PRECISIONS}
    write(tmp_path, "2026-01-01", "cuda (a GPU)", times)
    write(tmp_path, "2026-01-01-cpu", "cpu", times)
    (row,) = cells(tmp_path).values()
    assert row == {column.title: "1.0x" for column in COLUMNS}


def test_the_fastest_precision_is_taken_of_those_in_the_same_file(tmp_path):
    times = {"passnet": 2.0, "nn.GRU": 8.0, "nn.GRU tf32": 7.0, "nn.GRU bf16": 90.0}
    times |= {"nn.GRU fp16": 6.0, "passnet bf16": 1.5, "passnet fp16": 1.6}
    write(tmp_path, "2026-01-01", "cuda", times)
    write(tmp_path, "2026-01-02", "cuda", {"passnet": 2.0, "nn.GRU": 8.0, "nn.GRU fp16 graph": 1})
    assert cells(tmp_path) == {"128, 24": {CALL: "4.0x", FASTEST: "3.0x", BOTH: "4.0x"}}


def test_without_a_precision_of_theirs_nothing_is_said_of_the_fastest(tmp_path):
    write(tmp_path, "1", "cuda", {"passnet": 1.0, "nn.GRU": 9.0, "nn.GRU bf16": 5.0})
    assert cells(tmp_path) == {"128, 24": {CALL: "9.0x"}}


def test_tied_layers_have_a_row_of_their_own(tmp_path):
    for shape, ours in (("a: GRU reset-after", 2.0), ("a: GRU reset-after tied", 1.0)):
        write(tmp_path, "1", "cuda", {"passnet": ours, "nn.GRU": 4.0}, shape=shape)
    assert cells(tmp_path) == {"128, 24": {CALL: "2.0x"}, "128, 24 tied": {CALL: "4.0x"}}


def test_the_newest_file_with_a_shape_counts_for_it(tmp_path):
    write(tmp_path, "2026-01-01", "cuda", {"passnet": 1.0, "nn.GRU": 9.0})
    write(tmp_path, "2026-01-01", "cuda", {"passnet": 1.0, "nn.GRU": 7.0}, n=256)
    write(tmp_path, "2026-01-02", "cuda", {"passnet": 1.0, "nn.GRU": 3.0})
    write(tmp_path, "2026-01-03", "cuda", {"passnet": 1.0, "nn.GRU": 5.0}, kind="forward")
    write(tmp_path, "2026-01-04-growth", "cuda", {"passnet": 1.0, "nn.GRU": 5.0})
    assert cells(tmp_path) == {"128, 24": {CALL: "3.0x"}, "256, 24": {CALL: "7.0x"}}


def test_shapes_of_one_layer_are_a_span_and_layers_are_in_order(tmp_path):
    for shape, theirs in (("a: GRU reset-before", 2.0), ("a: GRU reset-after", 3.5)):
        write(tmp_path, "1", "cuda", {"passnet": 1.0, "nn.GRU": theirs}, n=1000, shape=shape)
    write(tmp_path, "1", "cuda", {"passnet": 1.0, "nn.LSTM": 4.0}, n=64, shape="a: LSTM")
    write(tmp_path, "1", "cuda", {"passnet": 1.0, "nn.GRU": 25.0}, n=256)
    found = cells(tmp_path)
    assert list(found) == ["256, 24", "1000, 24", "LSTM 64, 24"]
    assert [row[CALL] for row in found.values()] == ["25x", "2.0 to 3.5x", "4.0x"]


def test_a_processor_has_a_column_of_its_own(tmp_path):
    write(tmp_path, "1", "cuda", {"passnet": 1.0, "nn.GRU": 2.0})
    write(tmp_path, "2", "cpu", {"passnet": 1.0, "nn.GRU": 6.0}, n=256)
    assert cells(tmp_path) == {
        "128, 24": {CALL: "2.0x", CPU: ""},
        "256, 24": {CALL: "", CPU: "6.0x"},
    }
