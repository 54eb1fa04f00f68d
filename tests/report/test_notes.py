"""Notes that lie beside results: how they are read, shown, and found from the rows."""

from __future__ import annotations

import re

import pytest
from made_up_runs import experiment_of, write_run

from passnet.cli import main
from passnet.report import ReportError
from passnet.report.markdown import Block, blocks_html, inline_html, read_blocks
from passnet.report.notes import find_notes, presets_named
from passnet.report.page import render_page

TEXT = """# Notes on these results

What the files do not say:
two lines of it.

## Where a row falls short

- **psmnist/lrd-gru-128-24, psmnist/gru-128** and **lr-gru-512-4**: the reason is
  a long one.

  It goes on.
- **psMNIST** in general, see [the paper](https://arxiv.org/abs/1603.03116)

Not indented: a paragraph.
"""


def test_headings_items_and_paragraphs():
    assert read_blocks(TEXT) == [
        Block("heading", "Notes on these results", level=1),
        Block("paragraph", "What the files do not say: two lines of it."),
        Block("heading", "Where a row falls short", level=2),
        Block(
            "item",
            "**psmnist/lrd-gru-128-24, psmnist/gru-128** and **lr-gru-512-4**: the reason is a "
            "long one. It goes on.",
        ),
        Block("item", "**psMNIST** in general, see [the paper](https://arxiv.org/abs/1603.03116)"),
        Block("paragraph", "Not indented: a paragraph."),
    ]
    assert read_blocks("") == [] and read_blocks("\n \n") == []
    assert read_blocks("#no heading\n-no item") == [Block("paragraph", "#no heading -no item")]
    assert read_blocks("# one\n# two\nwords") == [
        Block("heading", "one", level=1),
        Block("heading", "two", level=1),
        Block("paragraph", "words"),
    ]


def test_items_below_items():
    text = (
        "- **a**: x\n  goes on\n  - one\n    and on\n  - two\n- b\n\n  - three\n\nwords\n  - none"
    )
    blocks = read_blocks(text)
    assert blocks == [
        Block("item", "**a**: x goes on"),
        Block("item", "one and on", level=1),
        Block("item", "two", level=1),
        Block("item", "b"),
        Block("item", "three", level=1),
        Block("paragraph", "words - none"),
    ]
    assert blocks_html(blocks[:-1], below=2) == (
        "<ul>\n<li><strong>a</strong>: x goes on\n<ul>\n<li>one and on</li>\n<li>two</li>\n</ul>\n"
        "</li>\n<li>b\n<ul>\n<li>three</li>\n</ul>\n</li>\n</ul>"
    )


def test_blocks_become_elements():
    html = blocks_html([*read_blocks(TEXT)[2:4], Block("item", "b", anchor="x-1")], below=2)
    assert html.startswith("<h4>Where a row falls short</h4>\n<ul>\n<li><strong>psmnist/lrd")
    assert html.endswith('</li>\n<li id="x-1">b</li>\n</ul>')
    assert blocks_html(read_blocks("##### deep"), below=2) == "<h6>deep</h6>"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b `c`** d", "a <strong>b <code>c</code></strong> d"),
        ("`**no bold** <i>`", "<code>**no bold** &lt;i&gt;</code>"),
        ("[x & y](https://a.b/?c&d)", '<a href="https://a.b/?c&amp;d">x &amp; y</a>'),
        ("[x](javascript:alert)", "x (javascript:alert)"),
        ("[x](other.md)", "x (other.md)"),
        ('[x](https://a"onclick=b)', '<a href="https://a&quot;onclick=b">x</a>'),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("2 * 3 ** 4 `open", "2 * 3 ** 4 `open"),
    ],
)
def test_words_are_marked_and_escaped(text, html):
    assert inline_html(text) == html


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("**char-lm/gru-1000**: 2.98", ["char-lm/gru-1000"]),
        ("**`char-lm/gru-1000`** is", ["char-lm/gru-1000"]),
        ("**beyond/psmnist-42k** and **-21k**: x", ["beyond/psmnist-42k", "beyond/psmnist-21k"]),
        (
            "**psmnist/gru-128, psmnist/lr-gru-512-4** and **psmnist/lrd-gru-64-24**",
            ["psmnist/gru-128", "psmnist/lr-gru-512-4", "psmnist/lrd-gru-64-24"],
        ),
        ("**char-lm/gru-1000** and, see **psmnist/gru-128**", ["char-lm/gru-1000"]),
        ("not bold: char-lm/gru-1000", []),
        ("the row **char-lm/gru-1000**", []),
        ("**psMNIST, carry bias**: x", []),
        ("**psmnist/gru-128** and **24**", ["psmnist/gru-128"]),  # several end so
    ],
)
def test_presets_in_bold_at_the_start(text, found):
    assert list(presets_named(Block("item", text))) == found


def test_the_page_shows_notes_and_rows_lead_to_them(tmp_path):
    name = "psmnist/lrd-gru-128-24"
    write_run(tmp_path / "a", experiment_of(name), value=0.9, start=0.1)
    assert "Notes on these results" not in render_page([tmp_path])
    (tmp_path / "NOTES.md").write_text(TEXT + f"- **{name}** <b>again</b>\n")
    page = render_page([tmp_path, tmp_path])
    assert page.count("Notes on these results") == 1
    assert "<h4>Where a row falls short</h4>" in page and "&lt;b&gt;again&lt;/b&gt;" in page
    rows = dict(re.findall(r'<tr data-preset="([^"]+)">\n(<th.*?</th>)', page))
    links = re.findall(r'href="#(notes-[^"]+)"[^>]*>(\w+)<', rows[name])
    assert [words for _, words in links] == ["why", "note"]
    for anchor, _ in links:
        assert page.count(f'<li id="{anchor}"><strong>psmnist/lrd-gru-128-24') == 1
    assert re.findall(r">([a-z]+)</a>", rows["psmnist/lr-gru-512-4"]) == ["note"]  # not run
    assert "notes-" not in rows["psmnist/lr-gru-128-24"]
    short = page[page.index('id="short"') :]
    assert f'href="#{links[0][0]}"' in short[: short.index("</ul>")]


def test_several_notes_on_a_row_are_numbered(tmp_path):
    good, short = "psmnist/lr-gru-128-24", "psmnist/lrd-gru-128-24"
    write_run(tmp_path / "a", experiment_of(good), value=0.95)
    write_run(tmp_path / "b", experiment_of(short), value=0.8)
    items = (f"- **{good}** and **{short}** {word}\n" for word in ("one", "two", "three"))
    (tmp_path / "NOTES.md").write_text("".join(items))
    rows = dict(re.findall(r'<tr data-preset="([^"]+)">\n(<th.*?</th>)', render_page([tmp_path])))
    words = {
        name: re.findall(r'class="why"[^>]*>([^<]+)</a>', rows[name]) for name in (good, short)
    }
    assert words == {good: ["note 1", "note 2", "note 3"], short: ["why", "note 1", "note 2"]}
    assert '</a> <a class="why"' in rows[good]


def test_notes_of_several_folders_keep_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "NOTES.md").write_text(f"- **psmnist/gru-128** in {folder}")
    found = find_notes([tmp_path / "a", tmp_path / "b", tmp_path])
    assert [notes.place for notes in found] == ["a/NOTES.md", "b/NOTES.md"]
    anchors = [notes.about["psmnist/gru-128"] for notes in found]
    assert len(set(anchors)) == 2


def test_notes_that_cannot_be_read(tmp_path, capsys):
    (tmp_path / "NOTES.md").write_bytes(b"caf\xe9")
    with pytest.raises(ReportError, match=r"NOTES\.md cannot be read .*utf-8"):
        render_page([tmp_path])
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) != 0
    assert "NOTES.md cannot be read" in capsys.readouterr().err
    (tmp_path / "NOTES.md").unlink()
    (tmp_path / "NOTES.md").mkdir()
    with pytest.raises(ReportError, match=r"NOTES\.md cannot be read"):
        render_page([tmp_path])


def test_tables():
    text = "words\n\n| a | b |\n|---|--:|\n| `x` | **1** |\n| <i> | |\n\n| c |\n|---|\n| d |\nafter"
    blocks = read_blocks(text)
    assert [block.kind for block in blocks] == ["paragraph", "table", "table", "paragraph"]
    html = blocks_html(blocks, below=2)
    assert html.count("<table>") == 2 and "---" not in html
    assert '<thead><tr><th scope="col">a</th><th scope="col">b</th></tr></thead>' in html
    assert "<tr><td><code>x</code></td><td><strong>1</strong></td></tr>" in html
    assert "<tr><td>&lt;i&gt;</td><td></td></tr>" in html
    assert html.endswith("</div>\n<p>after</p>")
