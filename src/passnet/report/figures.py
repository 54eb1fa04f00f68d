"""Which charts the page shows, made from the runs, the author's curves and published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from passnet.config import Dense, Model
from passnet.experiments import names
from passnet.report.charts import curves_chart, cuts_off, speed_chart
from passnet.report.curves import author_curves, group_curves
from passnet.report.groups import SOLVED, Group
from passnet.report.leading import FASTEST, leading
from passnet.report.speed import SpeedFile


@dataclass(frozen=True)
class Figure:
    """A chart with its words; without a specification the words say why there is none.

    points: names of the points that the chart numbers, in that order.
    """

    anchor: str
    title: str
    caption: str
    spec: dict[str, Any] | None
    points: tuple[str, ...] = ()


class _Mark(NamedTuple):
    """A horizontal line at a value, and what it means."""

    value: float
    text: str


@dataclass(frozen=True)
class _Panel:
    """What a chart of curves shows.

    curve: the author's, by name; `ahead` is by how much its count exceeds ours.
    words: what else is to be known.
    """

    anchor: str
    title: str
    presets: tuple[str, ...]
    metric: str
    curve: str | None = None
    mark: _Mark | None = None
    ahead: int = 0
    words: str = ""


_COPY = "the paper's panel has the low-rank plus diagonal GRU and the uRNN"
_CUT_OFF = "the worst points, such as the first ones and single spikes, are cut off"
_EPOCHS = (
    "the author counts the evaluation before training (about 89 % wrong, above the chart) as epoch "
    "1, so his curve is drawn one epoch earlier than in his log"
)
_SOLVED = _Mark(SOLVED, "the paper's bound, 1e-3")
_NINETY = _Mark(0.9, "90 %, as in the paper")
_FIGURE_2 = (
    _Panel(
        "f2-fixed",
        "Memory, N = 500",
        ("copy-500/",),
        "cross_entropy_nats",
        mark=_SOLVED,
        words=_COPY,
    ),
    _Panel(
        "f2-length",
        "Memory, variable length",
        ("copy-variable-length/",),
        "cross_entropy_nats",
        "copy_variable_length_lrd_gru_128_50",
        _SOLVED,
        words=_COPY,
    ),
    _Panel(
        "f2-lag",
        "Memory, variable lag",
        ("copy-variable-lag/",),
        "cross_entropy_nats",
        mark=_SOLVED,
        words=_COPY,
    ),
    _Panel(
        "f2-addition",
        "Addition, T = 750",
        ("addition-750/",),
        "mse_author_distribution",
        "addition_750_lr_gru_128_24",
        _Mark(0.003, "the paper's 0.003"),
        words="the curves show the error with both marks anywhere, as in the author's test set, "
        "because his log has no other; the table and the paper's 0.003 are about sequences with "
        "one mark in each half",
    ),
    _Panel(
        "f2-low-rank",
        "Permuted MNIST, low-rank GRU",
        ("psmnist/lr-",),
        "accuracy",
        "psmnist_lr_gru_128_24",
        _NINETY,
    ),
    _Panel(
        "f2-diagonal",
        "Permuted MNIST, low-rank plus diagonal GRU, and the dense one",
        ("psmnist/lrd-", "psmnist/gru-"),
        "accuracy",
        mark=_NINETY,
        words="the paper's panel does not have the dense GRU",
    ),
)
_HIGHWAY = (
    _Panel(
        "highway-lr",
        "Low-rank Highway network",
        ("highway-mnist/lr-",),
        "error_percent",
        "highway_mnist_lr_1024_256",
        ahead=1,
        words=_EPOCHS,
    ),
    _Panel(
        "highway-lrd",
        "Low-rank plus diagonal Highway network",
        ("highway-mnist/lrd-",),
        "error_percent",
        "highway_mnist_lrd_1024_256",
        ahead=1,
        words=_EPOCHS,
    ),
)
_MACRO, _MICRO = "perplexity_macro", "perplexity_micro"
_KINDS = {
    "dense": ("Language models: dense GRUs", _MACRO),
    "untied": ("Language models: low-rank plus diagonal GRUs", _MACRO),
    "tied": ("Language models: GRUs with tied projections", _MACRO),
    "lstm": ("Language models: LSTMs", _MICRO),
}
_AVERAGES = {
    _MACRO: "macro, the mean over sentences, by which these rows are selected and judged",
    _MICRO: "micro, the mean over characters, by which these rows are selected and judged",
}


def figure_two(groups: Sequence[Group]) -> list[Figure]:
    """The six panels of the paper's figure 2."""
    models = dict.fromkeys(_model(name) for name in figure_two_presets())
    places = {model: place for place, model in enumerate(models)}
    return [_panel(panel, groups, places) for panel in _FIGURE_2]


def figure_two_presets() -> tuple[str, ...]:
    """The presets whose curves are in figure 2."""
    prefixes = tuple(prefix for panel in _FIGURE_2 for prefix in panel.presets)
    return tuple(name for name in names() if name.startswith(prefixes))


def highway_figures(groups: Sequence[Group]) -> list[Figure]:
    """Validation error of the Highway networks over epochs."""
    return [_panel(panel, groups) for panel in _HIGHWAY]


def character_figures(groups: Sequence[Group]) -> list[Figure]:
    """Validation perplexity of the language models, a panel for each kind of them."""
    found = []
    for anchor, (kind, metric) in _KINDS.items():
        words = _AVERAGES[metric]
        panel = _Panel(f"characters-{anchor}", kind, ("char-lm/",), metric, words=words)
        members = [group for group in groups if _kind(group.experiment.model) == anchor]
        found.append(_panel(panel, members))
    return found


def _kind(model: Model) -> str:
    if model.cell == "lstm":
        return "lstm"
    if isinstance(model.matrix, Dense):
        return "dense"
    return "tied" if getattr(model.matrix, "tied", False) else "untied"


def other_figures(groups: Sequence[Group]) -> list[Figure]:
    """One chart for each of the groups given, with the paper's number where there is one."""
    found = []
    for number, group in enumerate(groups):
        metric = group.experiment.selection.metric
        curves = group_curves([group], metric)
        if curves:
            paper = group.experiment.paper
            mark = paper.value if paper is not None and paper.metric == metric else None
            spec = curves_chart(curves, metric, mark=mark)
            words = f"Validation scores of {len(curves)} run{'s' if len(curves) > 1 else ''}"
            words += "" if mark is None else "; dotted: the paper's number"
            words += f"; {_CUT_OFF}." if cuts_off(spec) else "."
            found.append(Figure(f"run-{number}", group.label, words, spec))
    return found


def speed_figure(number: int, file: SpeedFile) -> Figure:
    """The main pass of one file of timings."""
    anchor = f"speed-{number}"
    if not file.tables:
        return Figure(anchor, file.title, "There are no timings in this file.", None)
    main = file.tables[0]
    series = leading(main.timings)
    title = f"{file.title}: {main.kind}"
    if not series:
        return Figure(anchor, title, "Nothing that the chart would show was timed.", None)
    words = ["Ordinary calls in float32"]
    if any(one.title == FASTEST for one in series):
        words.append(f"{FASTEST} is the best of all precisions and ways of calling it")
    if len(main.contenders) > len(series):
        words.append(f"all {len(main.contenders)} contenders are in the tables below")
    return Figure(anchor, title, f"{'; '.join(words)}.", speed_chart(series))


def _model(name: str) -> str:
    """The part of a preset's name that names the model."""
    return name.partition("/")[2]


def _panel(
    panel: _Panel, groups: Sequence[Group], places: Mapping[str, int] | None = None
) -> Figure:
    """`places` are numbers of the colours of models."""
    author = author_curves().get(panel.curve or "")
    unit = "update" if author is None else author.unit
    members = [g for g in groups if g.is_preset and g.name.startswith(panel.presets)]
    curves = group_curves(members, panel.metric, unit=unit)
    if not curves and author is None:
        return Figure(
            panel.anchor,
            panel.title,
            "Not run yet, and the author's repositories have no curve of it.",
            None,
        )
    words = [f"{len(curves)} run{'s' if len(curves) > 1 else ''} of ours on validation data"]
    if not curves:
        words = ["Not run by us yet"]
    if author is not None:
        words.append(f"dashed: the author's log, of {author.of}")
    if panel.mark is not None:
        words.append(f"dotted: {panel.mark.text}")
    if panel.words:
        words.append(panel.words)
    points = () if author is None else tuple((x - panel.ahead, y) for x, y in author.points)
    tints = {g.label: places[_model(g.name)] for g in members} if places else None
    mark = None if panel.mark is None else panel.mark.value
    spec = curves_chart(curves, panel.metric, unit=unit, author=points, mark=mark, places=tints)
    if cuts_off(spec):
        words.append(_CUT_OFF)
    return Figure(panel.anchor, panel.title, f"{'; '.join(words)}.", spec)
