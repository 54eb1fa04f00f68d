"""Which charts the page shows, made from the runs, the author's curves and published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from passnet.config import Dense, Model
from passnet.experiments import names
from passnet.report.charts import Mark, curves_chart, speed_chart
from passnet.report.curves import author_curves, group_curves
from passnet.report.groups import SOLVED, Group
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
    mark: Mark | None = None
    ahead: int = 0
    words: str = ""


_COPY = "the paper's panel has the low-rank plus diagonal GRU and the uRNN"
_EPOCHS = (
    "the author counts the evaluation before training, about 89 % wrong and above what is drawn, "
    "as epoch 1, so his curve stands one epoch earlier here than in his log"
)
_SOLVED = Mark(SOLVED, "the paper's bound, 1e-3")
_NINETY = Mark(0.9, "90 %")
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
        Mark(0.003, "the paper's 0.003"),
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
        words="the paper's panel is without the dense GRU",
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
_KINDS = {
    "baselines": "Language models: dense GRUs, and LSTMs",
    "untied": "Language models: low-rank plus diagonal GRUs",
    "tied": "Language models: GRUs with tied projections",
}


def figure_two(groups: Sequence[Group]) -> list[Figure]:
    """The six panels of the paper's figure 2."""
    return [_panel(panel, groups) for panel in _FIGURE_2]


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
    for anchor, kind in _KINDS.items():
        panel = _Panel(f"characters-{anchor}", kind, ("char-lm/",), "perplexity_micro")
        members = [group for group in groups if _kind(group.experiment.model) == anchor]
        found.append(_panel(panel, members))
    return found


def _kind(model: Model) -> str:
    if model.cell == "lstm" or isinstance(model.matrix, Dense):
        return "baselines"
    return "tied" if getattr(model.matrix, "tied", False) else "untied"


def other_figures(groups: Sequence[Group]) -> list[Figure]:
    """One chart for each of the groups given, with the paper's number where there is one."""
    found = []
    for number, group in enumerate(groups):
        metric = group.experiment.selection.metric
        curves = group_curves([group], metric)
        if curves:
            paper = group.experiment.paper
            mark = None
            if paper is not None and paper.value is not None and paper.metric == metric:
                mark = Mark(paper.value, "the paper")
            found.append(
                Figure(
                    f"run-{number}",
                    group.label,
                    f"Validation scores of {len(curves)} run{'s' if len(curves) > 1 else ''}.",
                    curves_chart(curves, metric, mark=mark),
                )
            )
    return found


def speed_figure(number: int, file: SpeedFile) -> Figure:
    """The main pass of one file of timings."""
    anchor = f"speed-{number}"
    if not file.tables:
        return Figure(anchor, file.title, "There are no timings in this file.", None)
    main = file.tables[0]
    return Figure(anchor, f"{file.title}: {main.kind}", file.facts, speed_chart(main.timings))


def _panel(panel: _Panel, groups: Sequence[Group]) -> Figure:
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
    if panel.words:
        words.append(panel.words)
    points = () if author is None else tuple((x - panel.ahead, y) for x, y in author.points)
    spec = curves_chart(curves, panel.metric, unit=unit, author=points, mark=panel.mark)
    return Figure(panel.anchor, panel.title, f"{'; '.join(words)}.", spec)
