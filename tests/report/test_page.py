"""The page: complete, self-contained, safe, and written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up_runs import experiment_of, write_run

from passnet.experiments import DISCREPANCIES, get, names
from passnet.report import ReportError, write_page
from passnet.report.page import render_page
from passnet.report.paper import TABLES, paper_score
from passnet.report.published import published
from passnet.report.write import write_whole

PAPER = [name for name in names() if get(name).protocol == "paper"]


class Text(HTMLParser):
    """The rows of tables by preset, all words outside scripts and styles, and what is loaded."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: dict[str, str] = {}
        self.words: list[str] = []
        self.loads: list[str] = []
        self._row: str | None = None
        self._silent = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self._silent = tag in ("script", "style")
        if tag == "tr":
            self._row = found.get("data-preset")
        if tag != "a":
            self.loads += [found[key] or "" for key in ("src", "href", "data") if key in found]

    def handle_endtag(self, tag):
        self._silent = False
        if tag == "tr":
            self._row = None

    def handle_data(self, data):
        if self._silent:
            return
        self.words.append(data)
        if self._row is not None:
            self.rows[self._row] = f"{self.rows.get(self._row, '')} {data.strip()}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(results):
    return render_page([results])


@pytest.fixture(scope="module")
def shown(page):
    return Text(page)


def test_every_paper_preset_is_in_exactly_one_table():
    listed = [name for table in TABLES for name in table.presets]
    assert sorted(listed) == sorted(PAPER)


@pytest.mark.parametrize("name", PAPER)
def test_every_row_of_the_paper_with_its_numbers_and_notes(shown, name):
    row = shown.rows[name]
    experiment = get(name)
    for part in paper_score(experiment).split(" in "):
        assert part in row
    assert str(experiment.model.size) in row
    if experiment.paper is not None and experiment.paper.validation is not None:
        assert f"{100 * experiment.paper.validation:.1f} %" in row
    for note in experiment.notes:
        assert " ".join(note.split()) in shown.text


def test_rows_with_and_without_runs(shown):
    row = shown.rows["psmnist/lrd-gru-128-24"]
    for part in ("93.80 %", "± 0.72", "matches", "+0.30 points", "20.6k", "21.0k", "11.35 %"):
        assert part in row
    assert "325\u202f500" in row and "10 min" in row and "cuda:0 (made-up GPU), made-up" in row
    assert "not run yet" in shown.rows["psmnist/gru-128"]
    assert "11.35 %" in shown.rows["psmnist/gru-128"]
    assert (
        "unfinished, update 500\u202f000 of 1\u202f000\u202f000" in shown.rows["char-lm/gru-1000"]
    )
    row = shown.rows["copy-variable-length/lrd-gru-128-50"]
    assert "2 of 3 solved it" in row and "partly reached" in row and "by 2 of 3 seeds" in row
    assert "1.546" in shown.rows["char-lm/lrd-gru-1000-64"]


def test_both_perplexities_and_which_the_paper_prints(tmp_path):
    macro, micro = "char-lm/lrd-gru-1000-64", "char-lm/lstm-1000-dropout"
    for name in (macro, micro):
        write_run(tmp_path / name, experiment_of(name), value=2.9)
    page = render_page([tmp_path])
    rows = Text(page).rows
    words = {name: " ".join(rows[name].split()) for name in (macro, micro)}
    assert "2.92 macro 2.900 2.871 1.522" in words[macro]
    assert "2.92 micro 2.900 2.871 1.522" in words[micro]
    cells = {name: page[page.index(f'data-preset="{name}"') :] for name in (macro, micro)}
    bold = {
        n: re.findall(r'<td class="number ours"[^>]*><span>([^<]*)', c)[0] for n, c in cells.items()
    }
    assert bold == {macro: "2.900", micro: "2.871"}
    assert "macro not run yet \u2013 \u2013" in " ".join(rows["char-lm/gru-1000"].split())


def test_missing_rows_are_listed_exactly(page):
    part = page[page.index("Not run yet, or not finished") :]
    listed = re.findall(r"<li><code>([^<]+)</code></li>", part[: part.index("</ul>")])
    done = {
        "psmnist/lrd-gru-128-24",
        "copy-variable-length/lrd-gru-128-50",
        "addition-750/lr-gru-128-24",
        "highway-mnist/lr-1024-256",
        "char-lm/lrd-gru-1000-64",
    }
    assert sorted(listed) == sorted(set(PAPER) - done)


def test_ledger_and_published_models_are_there(shown):
    for item in DISCREPANCIES:
        assert item.claim in shown.text and item.found in shown.text and item.here in shown.text
    for rows in published().values():
        for row in rows:
            assert row.model in shown.text and f"arXiv {row.arxiv}" in shown.text


def test_nothing_is_loaded_from_anywhere(page, shown):
    assert shown.loads == []
    assert "@import" not in page and not re.search(r"url\(\s*['\"]?http", page)
    assert "default-src 'none'" in page


def test_charts_hold_our_curves_and_the_authors(page):
    specs = json.loads(re.search(r'id="specs">(.*?)</script>', page, re.DOTALL)[1])
    drawn = {"budget-digits", "budget-characters", "f2-length", "f2-addition", "f2-low-rank"}
    assert drawn <= set(specs)
    rows = specs["f2-length"]["data"]["values"]
    authors = [(row["update"], row["score"]) for row in rows if row["model"] == "the author's log"]
    assert len(authors) == 61 and authors[-1] == (30000, 0.0008618)
    ours = {(row["model"], row["run"]) for row in rows if row["model"] != "the author's log"}
    assert ours == {("copy-variable-length/lrd-gru-128-50", f"seed {seed}") for seed in range(3)}
    assert "highway-lr" in specs and "beyond/psmnist-42k" in json.dumps(specs["budget-digits"])
    assert "f2-fixed" not in specs


def test_the_same_runs_give_the_same_page(page, results):
    assert render_page([results]) == page


def test_a_perfect_score_does_not_break_a_chart(tmp_path):
    name = "copy-500/lrd-gru-128-50"
    write_run(tmp_path / "a", experiment_of(name), value=0.0, start=2.0)
    assert "chart-f2-fixed" in render_page([tmp_path])


def test_seeds_that_diverged_have_failed(tmp_path):
    some, all_of_them = "psmnist/lrd-gru-128-24", "copy-500/lrd-gru-128-50-wn"
    write_run(tmp_path / "a", experiment_of(some), value=0.95, start=0.1)
    write_run(tmp_path / "b", experiment_of(some, seed=1), value=0.95, diverged=40_000)
    write_run(tmp_path / "c", experiment_of(all_of_them), value=0.1, diverged=70)
    shown = Text(render_page([tmp_path]))
    row = shown.rows[some]
    assert "95.00 %" in row and "1 of 2, 1 diverged" in row
    assert "partly reached" in row and "1 of 2 seeds failed" in row
    row = shown.rows[all_of_them]
    assert "diverged at update 70" in row and "0 of 1 solved it" in row
    assert "unfinished" not in shown.text
    assert "diverged: the gradient of update 70 is not finite" in shown.text


def test_aims_stand_beside_what_was_reached(tmp_path):
    write_run(tmp_path / "a", get("beyond/psmnist-42k"), value=0.9586, start=0.1)
    write_run(tmp_path / "b", get("beyond/copy-500"), value=1e-5, start=0.04)
    rows = Text(render_page([tmp_path])).rows
    assert "≥ 96.7 % not reached" in rows["beyond/psmnist-42k"]
    assert "≤ 0.001 reached" in rows["beyond/copy-500"]
    assert "≥ 95.6 %" in rows["beyond/psmnist-21k"]  # not run: what it is made for


def test_trials_stand_together_the_best_first(tmp_path):
    preset = get("beyond/copy-500")
    values = {64: 3e-4, 32: 2e-4, 16: None}
    for size, value in values.items():
        model = replace(preset.model, carry_bias=float(size))
        changed = replace(preset, batch_size=7, model=model)
        write_run(tmp_path / str(size), changed, value=value, start=0.04)
    write_run(tmp_path / "own", preset, value=1e-5, start=0.04)
    page = render_page([tmp_path])
    section = page[page.index('id="others"') : page.index('id="speed"')]
    assert section.count("<table") == 1
    assert section.count("batch_size=7") == 1  # what all have in common is said once
    order = [section.index(f"carry_bias={float(size)}") for size in (32, 64, 16)]
    assert order == sorted(order)
    assert "< 0.001" not in section  # another experiment than the paper's
    specs = json.loads(re.search(r'id="specs">(.*?)</script>', page, re.S)[1])
    assert sum(name.startswith("run-") for name in specs) == 1


def test_it_works_with_no_runs_at_all(tmp_path):
    shown = Text(render_page([tmp_path]))
    assert set(PAPER) <= set(shown.rows)
    assert all("not run yet" in shown.rows[name] for name in PAPER)
    assert f"0 of {len(PAPER)}" in shown.text
    assert "There are no runs yet" in shown.text
    assert "No timings were given" in shown.text


def test_words_from_files_cannot_become_markup(tmp_path):
    name = "</script><script>alert(1)</script><b>&"
    run = experiment_of("quick/copy", name=name)
    write_run(tmp_path / "a", run, value=0.1, start=1.0, device="<img src=x onerror=alert(2)>")
    page = render_page([tmp_path])
    assert "<script>alert" not in page and "<img src=x" not in page and "<b>&" not in page
    assert name in Text(page).text


def test_writing_is_whole_or_not_at_all(tmp_path, monkeypatch):
    out = tmp_path / "report.html"
    write_page([], out)
    before = out.read_bytes()
    monkeypatch.setattr("passnet.config.whole_files.os.replace", _full)
    with pytest.raises(ReportError, match="could not write"):
        write_page([], out)
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(ReportError, match="could not write"):
        write_page([], tmp_path / "nowhere" / "report.html")


def test_a_link_stays_a_link(tmp_path):
    out, link = tmp_path / "pages" / "report.html", tmp_path / "latest.html"
    out.parent.mkdir()
    link.symlink_to(out)
    for _ in range(2):
        write_whole(link, "<html>")
        assert link.is_symlink() and out.read_text() == "<html>"
        assert sorted(tmp_path.rglob("*.html")) == [link, out]


def test_what_is_no_file_is_not_replaced(tmp_path):
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for place in (pipe, folder):
        with pytest.raises(
            ReportError, match=rf"could not write {place}: it is not a regular file"
        ):
            write_whole(place, "<html>")
    assert pipe.is_fifo() and sorted(tmp_path.iterdir()) == [folder, pipe]


def _full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("package", ["altair", "vl_convert", "jinja2"])
def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ReportError, match=r"pip install '\.\[report\]' in passnet's") as error:
        write_page([], tmp_path / "report.html")
    assert package in str(error.value)
    assert not (tmp_path / "report.html").exists()


def test_reports_never_import_torch(results, tmp_path):
    program = (
        "import sys; import passnet.report as report;"
        f"report.text_report([{str(results)!r}]); report.readme_results([{str(results)!r}]);"
        "assert 'altair' not in sys.modules and 'jinja2' not in sys.modules;"
        f"report.write_page([{str(results)!r}], {str(tmp_path / 'r.html')!r});"
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    source = Path(__file__).parents[2] / "src"
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": str(source)})


def test_rows_looked_at_more_rarely_stand_in_table_and_chart_and_say_so(tmp_path):
    changes = {"evaluate_every": 3000, "protocol": "ours"}
    run = experiment_of("psmnist/lrd-gru-128-24", **changes)
    write_run(tmp_path / "run", run, value=0.93)
    page = render_page([tmp_path])
    assert "validated every 3000 updates, not 300" in page
    assert "Every row that was run" not in page
    specs = json.loads(re.search(r'id="specs">(.*?)</script>', page, re.DOTALL)[1])
    spots = specs["budget-digits"]["data"]["values"]
    assert [s["m"] for s in spots if s["s"] == "passnet, the paper's protocol"] == [
        "LRD GRU 128/24"
    ]


def test_what_all_rows_of_a_table_share_is_in_its_caption(tmp_path):
    for name in ("psmnist/gru-128", "psmnist/lr-gru-128-24"):
        run = experiment_of(name, evaluate_every=3000, protocol="ours")
        write_run(tmp_path / name, run, value=0.93)
    page = render_page([tmp_path])
    table = page[page.index('id="rows-table-1"') : page.index('id="rows-table-2"')]
    for words in (
        "Every row that was run: validated every 3000 updates, not 300; otherwise the paper's "
        "protocol.".replace("'", "&#39;"),
        "All runs on cuda:0 (made-up GPU), with the made-up backend.",
    ):
        assert words in table[: table.index("</caption>")]
    assert table.count("validated every") == 1 and table.count("made-up GPU") == 1
    write_run(tmp_path / "c", experiment_of("psmnist/lr-gru-512-4"), value=0.93, device="cpu")
    rows = Text(render_page([tmp_path])).rows
    assert "cpu, made-up" in rows["psmnist/lr-gru-512-4"]
    assert "validated every" in rows["psmnist/gru-128"]


def test_the_table_beyond_the_paper_says_what_its_numbers_measure(tmp_path):
    names = ("beyond/ptb-2.6M", "beyond/copy-500", "beyond/psmnist-42k")
    for name, value in zip(names, (2.479, 1e-5, 0.967), strict=True):
        write_run(tmp_path / name, get(name), value=value, start=10.0)
    page = render_page([tmp_path])
    table = page[page.index('id="rows-beyond"') :]
    rows = dict(re.findall(r'<tr data-preset="([^"]+)">(.*?)</tr>', table, re.DOTALL))
    cells = {name: re.findall(r"<td[^>]*><span>([^<]*)", rows[name]) for name in rows}
    assert "perplexity macro</small>" in rows[names[0]] and "macro</small>" in rows[names[0]]
    assert cells[names[0]][2] == "1.295" and cells[names[0]][3] == "\u2013"
    assert "nats</small>" in rows[names[1]]
    assert cells[names[1]][2] == "\u2013" and cells[names[1]][3] != "\u2013"
    assert "accuracy</small>" in rows[names[2]] and cells[names[2]][2:4] == ["\u2013"] * 2
    # What is held out of training does not change the test, nor chance.
    assert "11.35 %" in rows["beyond/psmnist-42k-all-digits"]


def test_the_authors_repositories_are_linked(page):
    for name in ("lowrank-gru", "lowrank-highwaynetwork"):
        assert f'<a href="https://github.com/Avmb/{name}">' in page


def test_notes_of_presets_need_no_sentence_before_them():
    for name in names():
        for note in get(name).notes:
            assert not note.startswith(("It ", "They ")) and note.endswith("."), note
            assert "Worth trying" not in note and "worth running" not in note, note
