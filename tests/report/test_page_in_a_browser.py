"""The page as a real browser shows it: content, not pixels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from made_up_runs import experiment_of, write_run

from passnet.experiments import get, names
from passnet.report import write_page

PAPER_WIDTH = 1031  # of A4 across, less margins of 12 mm, in pixels
RESULTS = Path(__file__).parents[2] / "results"
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAYS = [(f"nn.LSTM(proj_size=24) way {number}", 1234.5) for number in range(17)]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    row = {"shape": "GRU", "n": 128, "d": 24, "T": 784, "B": 20, "dtype": "float32"}
    rows = [
        row | {"pass": "forward", "contender": name, "milliseconds": ms, "peak_bytes": None}
        for name, ms in (("passnet", 1.0), ("nn.GRU", 4.0), *WAYS)
    ]
    (folder / "a.json").write_text(json.dumps(rows))
    notes = folder / "runs" / "NOTES.md"
    notes.parent.mkdir()
    notes.write_text("- **psmnist/lrd-gru-128-24**: made up.\n")
    run = experiment_of("beyond/copy-500")
    write_run(folder / "runs" / "a", run, value=1e-4, start=2.0)
    write_page([results, folder / "runs"], folder / "report.html", benchmarks=folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def repository_page(tmp_path_factory):
    out = tmp_path_factory.mktemp("repository") / "report.html"
    write_page([RESULTS], out, benchmarks=RESULTS.parent / "benchmarks" / "results")
    return out


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no browser at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, page_file):
    contexts = []

    def opened(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on(
            "console",
            lambda message: (
                page.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.complaints.append(request.url))
        page.goto(page_file.as_uri())
        page.wait_for_function("document.documentElement.dataset.charts === 'drawn'")
        # The page itself is the only thing that was ever asked for.
        assert page.complaints == [page_file.as_uri()]
        return page

    yield opened
    for context in contexts:
        context.close()


def test_every_table_is_shown_and_every_chart_has_marks(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    rows = page.eval_on_selector_all("tr[data-preset]", "rows => rows.map(r => r.dataset.preset)")
    wanted = [n for n in names() if get(n).protocol == "paper" or n.startswith("beyond/")]
    assert sorted(rows) == sorted(wanted)
    assert page.locator("table caption").count() == page.locator("table").count()
    assert page.get_by_role("heading", level=1).count() == 1
    counts = page.evaluate(
        """() => [...document.querySelectorAll(".chart")].map(chart => [
            chart.id,
            chart.querySelectorAll("svg .mark-line path, svg .mark-symbol path").length])"""
    )
    assert len(counts) >= 12
    assert all(number > 0 for _, number in counts), counts


def test_lines_of_our_runs_and_of_the_author(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    lines = page.locator("#chart-f2-length .mark-line path")
    assert lines.count() == 4
    dashed = page.locator("#chart-f2-length .mark-line path[stroke-dasharray='5,4']")
    assert dashed.count() == 1
    assert lines.last.get_attribute("stroke-dasharray") == "5,4", "the author's is on top"
    assert page.locator("#chart-f2-length .mark-rule line[stroke-dasharray='2,3']").count() == 1


def test_a_click_on_the_legend_brings_a_series_forward(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    chart = page.locator("#chart-f2-length")
    chart.scroll_into_view_if_needed()
    chart.locator(".role-legend-label text", has_text="the author's log").click()
    page.wait_for_function(
        """() => document.querySelectorAll(
            "#chart-f2-length .mark-line path[opacity='0.15']").length === 3"""
    )


def test_pointing_at_a_chart_names_the_run(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    page.locator("#chart-f2-length").scroll_into_view_if_needed()
    page.locator("#chart-f2-length svg").hover(position={"x": 300, "y": 120})
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert re.search(
        r"modelcopy-variable-length/lrd-gru-128-50runseed \dupdate\d+score0\.\d+",
        tooltip.text_content(),
    )


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_the_page_never_scrolls_sideways(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(
        """() => [...document.querySelectorAll(".chart svg")].every(
            svg => svg.getBoundingClientRect().right <= innerWidth)"""
    )


@pytest.mark.parametrize("width", [1024, 1280, 1400, 1600])
def test_a_table_wider_than_its_room_says_so_and_the_page_does_not_move(
    browser, repository_page, width
):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(repository_page.as_uri())
    # Which tables are too wide depends on the fonts of the machine.
    fits, says = page.eval_on_selector_all(
        ".scroll:has(tr[data-preset])",
        """nodes => [
            nodes.map(node => node.scrollWidth <= node.clientWidth + 1),
            nodes.map(node => !node.hasAttribute("data-wide")),
        ]""",
    )
    whole = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    assert len(fits) >= 7 and fits == says
    assert whole <= width


def test_a_link_to_a_note_unfolds_it(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    note = page.locator("#notes-1-1")
    assert not note.is_visible()
    page.locator("tr[data-preset='psmnist/lrd-gru-128-24'] .why").click()
    note.wait_for(state="visible")
    assert note.text_content() == "psmnist/lrd-gru-128-24: made up."


def test_folded_charts_are_as_wide_as_the_page_once_unfolded(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    page.locator("#timings > summary").click()
    page.wait_for_function(
        """() => document.querySelector("#chart-speed-0 svg").getBoundingClientRect().width > 900"""
    )


def test_on_paper_all_but_lists_for_a_screen_is_unfolded_and_nothing_is_cut_off(open_page):
    page = open_page(viewport={"width": PAPER_WIDTH, "height": 700})
    folded = page.locator("details:not([open])").count()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open]):not(.on-screen, .on-screen *)").count() == 0
    assert page.locator("#notes-1-1").is_visible() and page.locator("#rows-table-1").is_visible()
    for name in ("timings", "every-run"):
        assert not page.locator(f"#{name}").is_visible()
        assert page.locator(f"#{name}[open]").count() == 0
    assert page.get_by_text("are not printed").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER_WIDTH
    wide = page.eval_on_selector_all(
        "table, th, td, svg, p, li",
        """nodes => nodes.filter(node => node.scrollWidth > node.clientWidth + 1
            && getComputedStyle(node).display !== "inline"
            || node.getBoundingClientRect().right > innerWidth + 1).map(node => node.outerHTML)""",
    )
    assert wide == []
    pages = page.pdf(prefer_css_page_size=True)
    sizes = set(re.findall(rb"/MediaBox *\[0 0 ([\d.]+) ([\d.]+)\]", pages))
    assert [tuple(round(float(part)) for part in size) for size in sizes] == [(842, 595)]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == folded


def test_the_repositorys_results_are_less_than_thirty_pages(browser, repository_page):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(repository_page.as_uri())
    page.wait_for_function("document.documentElement.dataset.charts === 'drawn'")
    printed = page.pdf(prefer_css_page_size=True)
    page.close()
    assert len(re.findall(rb"/MediaBox", printed)) < 30


def test_a_speed_chart_has_at_most_six_series_in_shapes_of_their_own(browser, repository_page):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(repository_page.as_uri())
    page.wait_for_function("document.documentElement.dataset.charts === 'drawn'")
    page.locator("#timings > summary").click()
    charts = page.locator(".file[open] .chart")
    assert charts.count() >= 2
    page.wait_for_function(
        "() => document.querySelector('.file[open] svg').getBoundingClientRect().width > 250"
    )
    for number in range(charts.count()):
        looks, right = charts.nth(number).evaluate(
            """chart => [
                [...chart.querySelectorAll(".mark-symbol.role-legend-symbol path")].map(
                    symbol => [symbol.getAttribute("d"), symbol.getAttribute("fill")]),
                Math.max(...[...chart.querySelectorAll(".role-legend-label text")].map(
                    text => text.getBoundingClientRect().right))]"""
        )
        assert 1 < len(looks) <= 6
        assert len({d for d, _ in looks}) == len({fill for _, fill in looks}) == len(looks)
        assert right <= 390, "the legend is not cut"
    first = page.locator(".file[open] .scroll td.number").first.bounding_box()
    assert first["x"] + first["width"] <= 390, "the first number is there without scrolling"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_on_a_phone_a_table_says_that_it_goes_on_and_the_verdict_comes_early(open_page):
    page = open_page(viewport={"width": 390, "height": 844})
    table = page.locator(".scroll:has(#rows-table-1)")
    assert table.get_attribute("data-more") is not None
    assert "gradient" in table.evaluate("node => getComputedStyle(node).maskImage")
    hint = "node => getComputedStyle(node.querySelector('caption > span'), '::after').content"
    assert "Scroll sideways" in table.evaluate(hint)
    verdict = page.locator("tr[data-preset='psmnist/lrd-gru-128-24'] th .early")
    assert verdict.inner_text() == "matches" and verdict.bounding_box()["x"] < 200
    table.evaluate("node => node.scrollTo(node.scrollWidth, 0)")
    page.wait_for_function(
        """() => !document.querySelector('.scroll:has(#rows-table-1)').hasAttribute('data-more')"""
    )
    wide = open_page(viewport={"width": 1400, "height": 900})
    assert wide.locator(".scroll:has(#rows-table-1)").get_attribute("data-wide") is None
    assert not wide.locator("th .early").first.is_visible()


@pytest.mark.parametrize("table", ["#judged", "[aria-label=Discrepancies] table"])
def test_on_a_phone_claims_and_ledger_are_stacked(open_page, table):
    page = open_page(viewport={"width": 390, "height": 844})
    cells = page.eval_on_selector_all(
        f"{table} tbody tr:first-child > *",
        """cells => cells.map(cell => {
            const box = cell.getBoundingClientRect();
            return [box.left, box.top, box.right];
        })""",
    )
    assert len(cells) == 4 and len({left for left, _, _ in cells}) == 1
    assert [top for _, top, _ in cells] == sorted({top for _, top, _ in cells})
    assert all(right <= 390 for _, _, right in cells)


def test_on_a_phone_settings_break_between_their_words_only(browser, repository_page):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(repository_page.as_uri())
    keys = page.eval_on_selector_all(
        ".trials tbody .key",
        """keys => keys.map(key => [
            key.textContent,
            new Set([...key.getClientRects()].map(box => box.top)).size,
            key.querySelectorAll("wbr").length + 1])""",
    )
    page.close()
    assert len(keys) > 50
    assert [key for key, lines, parts in keys if lines > parts] == []


def test_printed_numbers_of_neighbouring_columns_keep_apart(browser, repository_page):
    page = browser.new_page(viewport={"width": PAPER_WIDTH, "height": 700})
    page.emulate_media(media="print")
    page.goto(repository_page.as_uri())
    gaps = page.eval_on_selector_all(
        "tr[data-preset]",
        """rows => rows.flatMap(row => {
            const boxes = [...row.querySelectorAll("td > span")].map(
                span => span.getBoundingClientRect());
            return boxes.slice(1).map((box, k) => box.left - boxes[k].right);
        })""",
    )
    page.close()
    assert min(gaps) >= 7


@pytest.mark.parametrize("width", [390, 1000, 1400])
@pytest.mark.parametrize("chart", ["digits", "characters"])
def test_names_and_numbers_of_points_touch_no_other(open_page, chart, width):
    page = open_page(viewport={"width": width, "height": 900})
    shown, touching = page.evaluate(
        """chart => {
            const texts = [...document.querySelectorAll(
                `#chart-budget-${chart} .mark-text.role-mark text`)];
            const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()])
                .filter(([, box]) => box.width > 0);
            const touch = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
                && a.top < b.bottom - 3 && b.top < a.bottom - 3;
            return [boxes.map(([text]) => text), boxes.flatMap(([one, a], k) =>
                boxes.slice(k + 1).filter(([, b]) => touch(a, b)).map(([two]) => [one, two]))];
        }""",
        chart,
    )
    assert touching == []
    listed = page.locator(f"#budget-{chart} .points li").count()
    points = page.locator(f"#chart-budget-{chart} .mark-symbol.role-mark path").count()
    assert points == listed == len(shown), "each has its name or number"
    assert all(text.isdigit() for text in shown) == (width == 390)


def test_light_and_dark_have_readable_contrast(open_page):
    grounds = []
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme, viewport={"width": 1280, "height": 900})
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        grounds.append(ground)
        places = ("body", "caption", "td.paper", "td.good span", "td.bad span", ".absent", "main a")
        for place in places:
            found = page.eval_on_selector(
                place,
                """node => {
                    const style = getComputedStyle(node);
                    return [style.color, style.backgroundColor];
                }""",
            )
            own = ground if _alpha(found[1]) == 0 else found[1]
            assert _contrast(found[0], own) >= 4.5, (scheme, place, found)
    assert grounds[0] != grounds[1]


def _numbers(colour: str) -> list[float]:
    return [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")]


def _alpha(colour: str) -> float:
    parts = _numbers(colour)
    return parts[3] if len(parts) > 3 else 1.0


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in _numbers(colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)
