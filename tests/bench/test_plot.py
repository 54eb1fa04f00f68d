"""The picture of a benchmark shows its numbers."""

from __future__ import annotations

import re

import pytest

from passnet.bench.measure import Row
from passnet.bench.plot import draw

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

MILLISECONDS = {"passnet": 0.5, "nn.GRU": 4.0, "loop": 200.0}


def rows(pass_: str) -> list[Row]:
    case = ("copy: GRU", 128, 50, 520, 20, "float32", pass_)
    return [Row(*case, name, time, 0.0, None) for name, time in MILLISECONDS.items()]


def test_every_contender_is_a_point_where_its_time_is(tmp_path):
    draw(rows("forward"), tmp_path / "times.svg")
    picture = (tmp_path / "times.svg").read_text()
    place = r'[^>]*?translate\(([\d.]+),[^>]*?d="M([\d.]+),0A'
    point = rf'aria-label="milliseconds: ([\d.]+); contender: ([^;"]+){place}'
    found = {n: (float(t), float(x), float(r)) for t, n, x, r in re.findall(point, picture)}
    assert {name: time for name, (time, _, _) in found.items()} == MILLISECONDS
    places = [found[name][1] for name in MILLISECONDS]
    assert places == sorted(places) and places[2] - places[1] > places[1] - places[0] > 20
    assert all(radius > 2 for _, _, radius in found.values())
    for number in ("0.5", "4", "200"):
        assert f">{number}</text>" in picture


def test_panels_stand_in_the_order_of_the_rows(tmp_path):
    draw([*rows("one step"), *rows("forward")], tmp_path / "times.svg")
    picture = (tmp_path / "times.svg").read_text()
    assert 0 < picture.index("B=20, one step</text>") < picture.index("B=20, forward</text>")
