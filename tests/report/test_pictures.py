"""The README's pictures: drawn of the files, complete in themselves, and old ones are noticed."""

from __future__ import annotations

import json
import re

import pytest
from made_up_runs import experiment_of, write_run

from passnet.report import readme_disagreement, update_readme
from passnet.report.pictures import PICTURES

pytest.importorskip("vl_convert", reason="the report extra is not installed")

README = "<!-- results -->\n<!-- /results -->\n"


@pytest.fixture
def home(tmp_path):
    """A repository with one run, one file of timings and a README that shows every picture."""
    (tmp_path / "docs").mkdir()
    shown = "".join(f"![drawn]({name})\n" for name in PICTURES)
    (tmp_path / "README.md").write_text(README + shown)
    write_run(tmp_path / "results" / "a", experiment_of("psmnist/gru-128"), value=0.93)
    write_timings(tmp_path, ours=2.0)
    return tmp_path


def write_timings(home, *, ours, device="cuda"):
    folder = home / "timings"
    folder.mkdir(exist_ok=True)
    shape = {"shape": "copy: GRU", "n": 128, "d": 24, "T": 10, "B": 2, "peak_bytes": 1}
    rows = [
        shape | {"pass": "forward+backward", "contender": name, "milliseconds": milliseconds}
        for name, milliseconds in (("passnet", ours), ("nn.GRU", 5.0))
    ]
    content = {"machine": {"device": device}, "rows": rows}
    (folder / "2026-01-01.json").write_text(json.dumps(content))


def update(home):
    return update_readme(home / "README.md", [home / "results"], home / "timings")


def disagreement(home):
    return readme_disagreement(home / "README.md", [home / "results"], home / "timings")


def texts(path):
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


def test_they_show_the_numbers_of_the_files(home):
    assert update(home) is True
    speed, accuracy = (home / name for name in PICTURES)
    assert {"GRU 128, rank 24", "2.5x", "cuda"} <= set(texts(speed))
    words = texts(accuracy)
    assert {"GRU 128", "coRNN 128", "passnet, the paper's protocol"} <= set(words)
    assert not {text for text in words if text.isdigit() and int(text) < 80}  # numbers of a list
    for path in (speed, accuracy):
        text = path.read_text()
        assert text.startswith("<svg") and "var(" not in text and "<script" not in text


def test_they_are_drawn_again_only_where_their_data_changed(home):
    update(home)
    assert disagreement(home) is None and update(home) is False
    before = {name: (home / name).read_bytes() for name in PICTURES}
    write_timings(home, ours=1.0)
    assert "docs/speed.svg is missing or shows other numbers" in (disagreement(home) or "")
    assert update(home) is True and disagreement(home) is None
    assert "5.0x" in texts(home / "docs/speed.svg")
    assert (home / "docs/accuracy.svg").read_bytes() == before["docs/accuracy.svg"]
    write_run(home / "results" / "b", experiment_of("psmnist/lr-gru-128-24"), value=0.9)
    update(home)
    assert (home / "docs/accuracy.svg").read_bytes() != before["docs/accuracy.svg"]


def test_the_machine_is_that_of_the_timings(home):
    update(home)
    write_timings(home, ours=2.0, device="cuda (made up)")
    assert "docs/speed.svg" in (disagreement(home) or "")
    update(home)
    assert "cuda (made up)" in texts(home / "docs/speed.svg")


def test_a_layer_that_is_slower_is_shown(home):
    write_timings(home, ours=10.0)
    update(home)
    (axis,) = re.findall(
        r"a log scale with values from ([\d.]+) to", (home / "docs/speed.svg").read_text()
    )
    assert float(axis) < 0.5 and "0.50x" in texts(home / "docs/speed.svg")


def test_one_that_is_missing_is_noticed(home):
    update(home)
    (home / "docs/accuracy.svg").unlink()
    assert "docs/accuracy.svg is missing" in (disagreement(home) or "")


def test_one_that_is_not_shown_or_has_no_data_is_left_alone(home):
    (home / "README.md").write_text(README)
    update(home)
    assert not list((home / "docs").iterdir())
    (home / "README.md").write_text(f"{README}![drawn](docs/speed.svg)\n")
    drawn = home / "docs/speed.svg"
    drawn.write_text("of timings that are elsewhere")
    update_readme(home / "README.md", [home / "results"])
    assert drawn.read_text() == "of timings that are elsewhere"
