"""What docs/layers.md and docs/from-torch.md say is so, and links of all pages lead somewhere."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
import torch

import passnet
from passnet.config.initialisation import INITIALISATIONS
from passnet.config.parameters import experiment_parameter_counts
from passnet.experiments import get
from passnet.ops import gru_backends, lstm_backends, unitary_backends
from passnet.ops.highway_gate import highway_backends

ROOT = Path(__file__).parent.parent
LAYERS = (ROOT / "docs" / "layers.md").read_text()
FROM_TORCH = (ROOT / "docs" / "from-torch.md").read_text()
REQUIRED = inspect.Parameter.empty
LAYER_NAMES = ("GRU", "LSTM", "Highway", "UnitaryRNN")
ARGUMENTS, CALL_ARGUMENTS = "| argument | default |", "| call argument | default |"


def section(name: str) -> str:
    """The text below a heading, up to the next one that is not below it."""
    found = re.search(rf"^(##+) {re.escape(name)}\n", LAYERS, re.M)
    assert found is not None, f"docs/layers.md has no section {name!r}"
    rest = LAYERS[found.end() :]
    end = re.search(rf"^#{{2,{len(found[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of all tables with this head, one after the other."""
    found = []
    for table in re.findall(rf"^{re.escape(head)}.*\n\|[-|]+\n((?:\|.*\n)*)", text, re.M):
        found += [line.strip("| \n").split(" | ") for line in table.splitlines()]
    return found


def shown(text: str, head: str) -> dict[str, object]:
    """Arguments and their defaults as tables of the page have them."""
    return {
        name.strip("`"): REQUIRED if default == "required" else ast.literal_eval(default.strip("`"))
        for name, default, _ in rows(text, head)
    }


def true(function) -> dict[str, object]:
    """Arguments and their defaults as Python has them."""
    parameters = inspect.signature(function).parameters
    return {name: p.default for name, p in parameters.items() if name != "self"}


def test_every_public_name_is_on_the_page():
    for name in passnet.__all__:
        assert section(name)


@pytest.mark.parametrize("name", sorted(set(passnet.__all__) - {"BackendRefused"}))
def test_the_arguments_and_defaults_are_those_of_the_code(name):
    found = shown(section(name), ARGUMENTS)
    if name == "LSTM":
        own = found
        assert "except\n`reset` and `recurrent_bias`" in section(name)
        assert "between `bidirectional` and `device`" in section(name)
        found = {}
        for argument, default in shown(section("GRU"), ARGUMENTS).items():
            if argument == "device":
                found |= own
            if argument not in ("reset", "recurrent_bias"):
                found[argument] = default
    wanted = true(getattr(passnet, name))
    assert list(found) == list(wanted)  # the order counts where arguments have no keywords
    assert found == wanted
    assert {key: type(value) for key, value in found.items()} == {
        key: type(value) for key, value in wanted.items()
    }


@pytest.mark.parametrize("name", ["GRU", "Highway", "UnitaryRNN"])
def test_the_arguments_of_calls_are_those_of_the_code(name):
    wanted = true(getattr(passnet, name).forward)
    assert shown(section(name), CALL_ARGUMENTS) == wanted
    if name == "GRU":
        assert true(passnet.LSTM.forward) == wanted


@pytest.mark.parametrize("name", ["GRU", "Highway", "UnitaryRNN"])
def test_every_method_is_on_the_page_with_its_arguments(name):
    kind = getattr(passnet, name)
    found = {}
    for cell, _ in rows(section(name), "| method |"):
        called, given = re.fullmatch(r"`(?:\w+\.)?(\w+)\((.*)\)`", cell).groups()
        found[called] = given
    ours = [base for base in kind.__mro__ if base.__module__.startswith("passnet.")]
    public = {
        method
        for base in ours
        for method, value in vars(base).items()
        if callable(getattr(value, "__func__", value)) and not method.startswith("_")
    }
    public -= {"forward", "extra_repr", "torch_type"}
    assert found.keys() == public
    for method, given in found.items():
        if "**" not in given:
            written = [word for word in given.split(", ") if word]
            wanted = true(getattr(kind, method))
            assert written == [
                argument if default is REQUIRED else f"{argument}={default!r}"
                for argument, default in wanted.items()
            ]


def test_structures_count_as_the_page_says():
    size, gates = 24, 3
    known = {name: getattr(passnet, name) for name in passnet.__all__}
    table = rows(section("Structures"), "| structure | the matrix of a gate |")
    for made, _, count in table:
        names = {"k": 4, "d": 5}
        matrix = eval(made.strip("`"), known | names)
        formula = count.replace("²", "**2").replace("/ k", "// k")
        formula = re.sub(r"(?<=[\w)]) (?=[a-z(])", " * ", formula)
        assert eval(formula, {**names, "g": gates, "n": size}) == matrix.count(size, gates)
    assert {made.strip("`").partition("(")[0] for made, *_ in table} == {
        name for name in passnet.__all__ if "Diagonal" in name or name in ("Dense", "LowRank")
    }


def test_it_lists_the_initialisations():
    found = [name.strip("`'") for name, _ in rows(section("Initialisation"), "| `init` |")]
    assert found == list(INITIALISATIONS)


def test_it_lists_the_backends():
    listed = [name.strip("`") for name, *_ in rows(section("Backends"), "| backend |")]
    scans = [*gru_backends(), *lstm_backends(), *unitary_backends()]
    names = {backend.name for backend in scans} | highway_backends(torch.zeros(2, 2)).keys()
    assert set(listed) == names
    assert [backend.name for backend in gru_backends()] == listed


@pytest.mark.parametrize("page", ["layers.md", "from-torch.md", "compress.md", "export.md"])
def test_examples_print_what_they_say(page, capsys, tmp_path, monkeypatch):
    text, said = (ROOT / "docs" / page).read_text(), 0
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(code, "docs", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        comments = re.findall(r"^print\(.*\)\s+# (.*)$", code, re.M)
        if comments:
            assert printed[: len(comments)] == comments
            said += len(comments)
    assert said


def anchors(page: Path) -> set[str]:
    """What a page's headings are called in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "results" / "NOTES.md"],
    ids=lambda page: page.name,
)
def test_links_and_anchors_lead_somewhere(page):
    words = re.sub(r"`[^`\n]*`", "", page.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", words):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if "://" not in link:
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", [*(ROOT / "docs").rglob("*.md")], ids=lambda page: page.name)
def test_files_of_timings_that_a_page_names_are_there(page):
    there = {path.name for path in (ROOT / "benchmarks" / "results").rglob("*.json")}
    for name in re.findall(r"(?:\d{4}-\d\d-\d\d|…)-[\w-]+\.json", page.read_text()):
        assert any(file.endswith(name.lstrip("…").replace("-N", "-1")) for file in there), name


def test_the_rows_of_the_paper_are_those_of_the_presets():
    found = re.findall(r"^\| `([a-z]+[a-z0-9-]*/[a-z0-9-]+)` \| (.*) \|$", FROM_TORCH, re.M)
    assert len(found) >= 6
    for name, rest in found:
        experiment = get(name)
        units, matrix, count, score = rest.split(" | ")
        assert int(units) == experiment.model.size
        assert matrix == experiment.model.matrix.describe()
        model = experiment_parameter_counts(experiment).model
        assert count == (f"{model / 1e6:.2f}M" if model >= 1e6 else f"{model / 1e3:.1f}k")
        value = experiment.paper.value
        if experiment.paper.metric == "accuracy":
            assert score == f"{100 * value:.1f} %"
        else:
            assert score == f"{value:.2f}"
