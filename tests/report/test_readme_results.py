"""The README's results come from the runs, and a disagreement is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_runs import experiment_of, write_run

from passnet.experiments import get, names
from passnet.report import (
    ReportError,
    has_marks,
    readme_disagreement,
    readme_results,
    update_readme,
)
from passnet.report.claims import CLAIMS
from passnet.report.groups import group_runs
from passnet.report.markdown import read_blocks
from passnet.report.notes import presets_named
from passnet.report.overview import overview
from passnet.report.paper import TABLES
from passnet.report.read import find_runs
from passnet.report.shortfalls import shortfalls

RESULTS = Path(__file__).parents[2] / "results"

README = "# made up\n\n<!-- results -->\n<!-- /results -->\n\nThe end.\n"


def rows_of(text: str) -> dict[str, str]:
    """The rows of the tables by their presets."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return {line.split("`")[1]: line for line in lines}


@pytest.fixture
def readme(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(README)
    return path


def test_every_row_of_the_paper_is_there(results):
    text = readme_results([results])
    for name in names():
        if get(name).protocol == "paper" or name.startswith("beyond/"):
            assert f"| `{name}` |" in text
    assert "93.80 ± 0.72 %" in text and "94.7 %" in text
    assert "*not run yet*" in text


def test_writing_makes_them_agree_and_leaves_the_rest(readme, results):
    assert readme_disagreement(readme, [results]) is not None
    assert update_readme(readme, [results]) is True
    assert readme_disagreement(readme, [results]) is None
    assert update_readme(readme, [results]) is False
    text = readme.read_text()
    assert text.startswith("# made up\n\n<!-- results -->\n")
    assert text.endswith("<!-- /results -->\n\nThe end.\n")


def test_speed_is_written_where_it_is_asked_for(readme, results, tmp_path):
    timings = tmp_path / "timings"
    timings.mkdir()
    shape = {"shape": "copy: GRU", "n": 128, "d": 24, "T": 10, "B": 2, "peak_bytes": 1}
    rows = [
        shape | {"pass": "forward+backward", "contender": name, "milliseconds": milliseconds}
        for name, milliseconds in (("passnet", 2.0), ("nn.GRU", 5.0))
    ]
    content = {"machine": {"device": "cuda"}, "rows": rows}
    (timings / "2026-01-01.json").write_text(json.dumps(content))
    update_readme(readme, [results], timings)
    assert "2.5x" not in readme.read_text()
    assert readme_disagreement(readme, [results], timings) is None
    readme.write_text(readme.read_text() + "\n<!-- speed -->\n<!-- /speed -->\n")
    assert "speed" in (readme_disagreement(readme, [results], timings) or "")
    assert readme_disagreement(readme, [results]) is None
    assert update_readme(readme, [results], timings) is True
    assert "| 128, 24 | 2.5x |" in readme.read_text()
    assert readme_disagreement(readme, [results], timings) is None
    readme.write_text(readme.read_text().replace("2.5x", "9.5x"))
    assert "9.5x" in (readme_disagreement(readme, [results], timings) or "")


def test_shortfalls_are_quoted_from_the_notes_where_they_are_asked_for(readme, tmp_path):
    runs = tmp_path / "runs"
    write_run(runs / "a", experiment_of("psmnist/gru-128"), value=0.93)
    readme.write_text(README + "\n<!-- shortfalls -->\n<!-- /shortfalls -->\n")
    with pytest.raises(ReportError, match=r"no .*NOTES\.md to quote"):
        update_readme(readme, [runs])
    notes = runs / "NOTES.md"
    notes.write_text("# Notes\n\n- not this\n")
    with pytest.raises(ReportError, match="needs a heading '## Where a row falls short'"):
        update_readme(readme, [runs])
    notes.write_text(
        "# Notes\n\n## Where a row falls short\n\n- **row**: why\n\n## More\n\n- not this\n"
    )
    update_readme(readme, [runs])
    text = readme.read_text()
    assert "<!-- shortfalls -->\n\n- **row**: why\n\n<!-- /shortfalls -->" in text
    assert "93.00 %" in text and "not this" not in text
    assert readme_disagreement(readme, [runs]) is None
    notes.write_text(notes.read_text().replace("why", "why not"))
    assert "why not" in (readme_disagreement(readme, [runs]) or "")


def test_marks(readme, tmp_path):
    assert has_marks(readme)
    assert not has_marks(tmp_path / "none.md") and not has_marks(tmp_path)
    readme.write_text("# made up")
    assert not has_marks(readme)


def test_a_new_run_and_an_edited_number_are_noticed(readme, tmp_path):
    runs = tmp_path / "runs"
    write_run(runs / "a", experiment_of("psmnist/gru-128"), value=0.93)
    update_readme(readme, [runs])
    agreed = readme.read_text()
    readme.write_text(agreed.replace("93.00 %", "99.00 %"))
    assert "99.00 %" in (readme_disagreement(readme, [runs]) or "")
    readme.write_text(agreed)
    write_run(runs / "b", experiment_of("psmnist/gru-128", seed=1), value=0.92)
    assert "disagrees" in (readme_disagreement(readme, [runs]) or "")


def test_seeds_that_diverged_are_counted(tmp_path):
    runs = tmp_path / "runs"
    write_run(runs / "a", experiment_of("psmnist/gru-128"), value=0.93)
    write_run(runs / "b", experiment_of("psmnist/gru-128", seed=1), value=0.93, diverged=70)
    write_run(runs / "c", experiment_of("psmnist/lr-gru-128-24"), value=0.93, diverged=70)
    rows = rows_of(readme_results([runs]))
    some, none = rows["psmnist/gru-128"], rows["psmnist/lr-gru-128-24"]
    assert "| 93.00 % | 1 of 2, 1 diverged |" in some and "1 of 2 seeds failed" in some
    assert "| *diverged at update 70* | 0 of 1, 1 diverged | 70 | worse" in none


def test_rows_are_counted_above_the_tables(tmp_path):
    runs = tmp_path / "runs"
    write_run(runs / "a", experiment_of("psmnist/gru-128"), value=0.93)
    for seed in range(2):
        short = experiment_of("psmnist/lr-gru-128-24", seed=seed)
        write_run(runs / f"b-{seed}", short, value=0.5)
    cut = experiment_of("char-lm/gru-1000")
    write_run(runs / "c", cut, value=2.9, stopped="time: 5 minutes have passed")
    write_run(runs / "d", experiment_of("copy-500/gru-128"), value=1e-4)
    begun = experiment_of("copy-500/urnn-721")
    write_run(runs / "e", begun, value=1e-4, finished=False)
    first, counted, *tables = readme_results([runs], reasons=True).split("\n\n")
    assert tables[0] == f"**{TABLES[0].title}**" and f"**{CLAIMS}**" in tables
    rows = sum(len(table.presets) for table in TABLES)
    assert first == (
        f"The paper's experiments make {rows} rows: 19 in its two tables, {rows - 19} in its text "
        "and figures."
    )
    assert counted.splitlines() == [
        "- 3 ran to the end. The paper prints a number for 2 of them: 1 as good or better, "
        "1 short of it (reasons below the tables).",
        "- 1 was stopped early for want of time. The paper prints a number for it: 1 "
        "as good or better, 0 short of it.",
        "- 1 was not finished: copy-500/urnn-721.",
        f"- {rows - 5} were not run.",
        "- 3 of the 4 results rest on one seed.",
    ]
    found = overview(group_runs(find_runs([runs])))
    assert (found.good, found.cut_good, found.single) == (1, 1, 3)
    assert (found.short, found.cut_below) == (("psmnist/lr-gru-128-24",), 0)
    assert "reasons" not in readme_results([runs])
    (runs / "none").mkdir()
    assert readme_results([runs / "none"]).startswith(
        f"{first}\n\n- 0 ran to the end.\n- {rows} were not run.\n\n**T"
    )


def test_the_notes_have_a_reason_for_every_row_that_falls_short():
    found = overview(group_runs(find_runs([RESULTS])))
    told = {name for block in read_blocks(shortfalls([RESULTS])) for name in presets_named(block)}
    assert set(found.short) <= told


def test_what_all_rows_share_is_said_once(tmp_path):
    rarely = {"evaluate_every": 3000, "protocol": "ours"}
    for name in ("psmnist/gru-128", "psmnist/lr-gru-128-24"):
        write_run(tmp_path / name, experiment_of(name, **rarely), value=0.93)
    said = "validated every 3000 updates, not 300; otherwise the paper's protocol"
    text = readme_results([tmp_path])
    assert text.count(said) == 1
    assert f"**{TABLES[0].title}**\n\nEvery row that was run: {said}.\n\n| preset" in text
    other = experiment_of("psmnist/lr-gru-512-4")
    write_run(tmp_path / other.name, other, value=0.93)
    rows = rows_of(readme_results([tmp_path]))
    assert [said in rows[name] for name in list(rows)[:3]] == [True, True, False]


def test_our_own_aims_are_held_against_us(tmp_path):
    runs = tmp_path / "runs"
    write_run(runs / "a", experiment_of("beyond/psmnist-42k"), value=0.967)
    write_run(runs / "b", experiment_of("beyond/psmnist-21k"), value=0.9559)
    write_run(runs / "c", experiment_of("beyond/ptb-2.6M"), value=2.5)  # 1.308 bits
    rows = rows_of(readme_results([runs]))
    assert "; aim ≥ 96.7 % reached |" in rows["beyond/psmnist-42k"]
    assert "; aim ≥ 95.6 % not reached |" in rows["beyond/psmnist-21k"]
    assert "| aim ≤ 1.29 bits not reached, 1.307; " in rows["beyond/ptb-2.6M"]
    assert "aim" not in rows["beyond/copy-500"]  # nothing has run
    diverged = experiment_of("beyond/psmnist-42k", seed=1)
    write_run(runs / "d", diverged, value=0.97, diverged=70)
    assert "; aim ≥ 96.7 % not reached |" in readme_results([runs])


@pytest.mark.parametrize("text", ["none", "<!-- results -->", "<!-- /results --><!-- results -->"])
def test_missing_marks(readme, text):
    readme.write_text(text)
    with pytest.raises(ReportError, match="needs one line"):
        update_readme(readme, [])
    assert readme.read_text() == text
