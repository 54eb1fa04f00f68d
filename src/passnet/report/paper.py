"""The paper's tables as lists of presets, and how our runs compare with a printed number."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from passnet.config import Aim, Experiment, Model, better
from passnet.experiments import names
from passnet.report import numbers
from passnet.report.describe import second_runs, standing
from passnet.report.groups import Group

Word = Literal["better", "matches", "worse", "reached", "partly reached", "not reached"]
GOOD = ("better", "matches", "reached")
TEST_DIGITS = 10_000
# Decimals the paper prints, of percents where the metric is an accuracy.
_DIGITS = {"table 1": 1, "table 2": 2, "section 3, addition task": 3, "appendix A.1": 2}


@dataclass(frozen=True)
class Table:
    """A table of the report."""

    anchor: str
    title: str
    caption: str
    presets: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """A comparison with the paper; `text` says how far apart the numbers are."""

    word: Word
    text: str

    @property
    def good(self) -> bool:
        """Whether our runs do at least as well."""
        return self.word in GOOD


def _under(prefix: str) -> tuple[str, ...]:
    return tuple(name for name in names() if name.startswith(prefix))


_COPY = (
    "A run has solved the task if its test cross-entropy is below 1e-3 nats, averaged over all "
    "steps. The table also gives the update at which validation was first below that, for each run "
    "that ever was; a run can be below it on validation but not on the test. The test score is the "
    "median of the seeds, with their range."
)
TABLES = (
    Table(
        "table-1",
        "Table 1. Sequential permuted MNIST",
        "Accuracy on 10 000 test digits, read one pixel per step in a fixed random order; the "
        "parameters with the best validation cross-entropy are tested once. Judging by the one log "
        "that is public, the paper's validation accuracy is the highest of the whole run, not that "
        "of the tested parameters; passnet's is given both ways.",
        _under("psmnist/"),
    ),
    Table(
        "table-2",
        "Table 2. Character-level language modelling of Penn Treebank",
        "Perplexity per character on the test set. The paper's number is macro for the GRUs, exp "
        "of the mean over sentences of each sentence's mean cost, and micro for the LSTMs; bits "
        "per character are micro everywhere. passnet's perplexity in bold is the one to compare "
        "with the paper's.",
        _under("char-lm/"),
    ),
    Table(
        "memory-fixed",
        "Memory task, N = 500",
        f"Ten symbols are repeated after 500 steps. {_COPY}",
        _under("copy-500/"),
    ),
    Table(
        "memory-length",
        "Memory task, variable length, N = 100",
        f"One to ten symbols are repeated after 100 steps (Danihelka et al. 2016). {_COPY}",
        _under("copy-variable-length/"),
    ),
    Table(
        "memory-lag",
        "Memory task, variable lag, N = 100",
        f"Ten symbols are repeated after 1 to 100 steps (Henaff et al. 2016). {_COPY}",
        _under("copy-variable-lag/"),
    ),
    Table(
        "addition",
        "Addition task, T = 750",
        "Mean squared error of the sum of two marked numbers among 750, with one number marked in "
        "each half, as the paper says, and with both anywhere, as in the author's test set; the "
        "median of the seeds, with their range.",
        _under("addition-750/"),
    ),
    Table(
        "highway",
        "Appendix A.1. Highway networks on permutation-invariant MNIST",
        "Accuracy on 10 000 test digits, all pixels at once, five Highway layers.",
        _under("highway-mnist/"),
    ),
)
ROWS = tuple(name for table in TABLES for name in table.presets)
"""All presets that stand for the paper's experiments."""
BEYOND = Table(
    "beyond",
    "Beyond the paper, at its parameter budgets",
    "Our recipes, not the paper's protocol; the paper's number is from its row of the same size.",
    _under("beyond/"),
)


def compare(group: Group | None) -> Verdict | None:
    """How finished runs compare with the paper's number; None where either is missing, or it is of
    another measure.

    Two numbers match when they differ by no more than the spread of the seeds, the rounding of the
    printed one or, for accuracies, the standard error of one test on so many digits. Where some
    seeds failed, a number that matches is reached by the others only. A spread above the paper's
    number itself says nothing: then each seed reaches the number or does not.
    """
    paper = None if group is None else group.experiment.paper
    if group is None or paper is None or paper.value is None or not group.finished:
        return None
    if paper.relation == "unlike":
        return None
    if paper.relation == "below":
        return counted(len(group.within), len(group.finished))
    found = group.summary()
    if found is None:
        return Verdict("worse", standing(group))
    sign = -1 if better(paper.metric) == "min" else 1
    gain = sign * (found.mean - paper.value)
    slack = max(
        _rounding(paper.metric, _digits(group.experiment)),
        standard_error(paper.value) if paper.metric == "accuracy" else 0.0,
    )
    if found.spread is not None and found.spread > abs(paper.value):
        values = [run.outcome.value for run in group.scored if run.outcome]
        as_good = [v for v in values if v is not None and sign * (v - paper.value) >= -slack]
        return counted(len(as_good), len(group.finished))
    slack = max(slack, found.spread or 0.0)
    word = "better" if gain > slack else "worse" if gain < -slack else "matches"
    text = _difference(paper.metric, found.mean - paper.value)
    if group.failed:
        word = "worse" if word == "worse" else "partly reached"
        text = f"{text}, {len(group.failed)} of {len(group.finished)} seeds failed"
    return Verdict(word, text)


def remarks(group: Group, said: Collection[str] = ()) -> list[str]:
    """What is to be known of finished runs besides their score, but for what was said already."""
    own = (text for text in group.remarks if text not in said)
    return [text for text in (*own, second_runs(group)) if text]


def counted(good: int, count: int) -> Verdict:
    """Whether all seeds of some reach what they have to."""
    word = "reached" if good == count else "partly reached" if good else "not reached"
    return Verdict(word, f"by {good} of {count} seed{'s' if count > 1 else ''}")


def aim_score(aim: Aim) -> str:
    """What a recipe of ours was made to reach."""
    bound = "≥" if better(aim.metric) == "max" else "≤"
    if aim.metric.startswith("bits"):
        return f"{bound} {aim.value:.2f} bits"
    if aim.metric.startswith("accuracy"):
        return f"{bound} {numbers.score(aim.metric, aim.value, digits=1)}"
    return f"{bound} {numbers.significant(aim.value, 1)}"


def reached(aim: Aim, group: Group | None) -> Verdict | None:
    """Whether all finished runs together reach the aim, with their score; None without one."""
    found = None if group is None else group.summary(aim.metric)
    if group is None or found is None:
        return None
    sign = 1 if better(aim.metric) == "max" else -1
    good = sign * (found.mean - aim.value) >= 0 and found.count == len(group.finished)
    return Verdict("reached" if good else "not reached", numbers.score(aim.metric, found.mean))


def aim_remark(experiment: Experiment, group: Group | None) -> list[str]:
    """Whether a recipe of ours reaches its aim, where it has one and was run."""
    aim = experiment.aim
    found = None if aim is None else reached(aim, group)
    if aim is None or group is None or found is None:
        return []
    other = f", {found.text}" if aim.metric != group.metric else ""
    return [f"aim {aim_score(aim)} {found.word}{other}"]


def paper_score(experiment: Experiment) -> str:
    """The paper's number as it prints it."""
    paper = experiment.paper
    if paper is None or paper.value is None:
        return numbers.ABSENT
    if paper.relation == "below":
        within = "" if paper.updates is None else f" in {numbers.whole(paper.updates)} updates"
        return f"< {numbers.significant(paper.value, 1)}{within}"
    return numbers.score(paper.metric, paper.value, digits=_digits(experiment))


def model_name(model: Model) -> str:
    """The architecture in the paper's words."""
    cell = {"gru": "GRU", "lstm": "LSTM", "highway": "Highway", "urnn": "uRNN"}[model.cell]
    if model.cell == "urnn":
        return cell
    kind = type(model.matrix).__name__
    words = {
        "Dense": "Baseline",
        "LowRank": "Low-rank",
        "LowRankPlusDiagonal": "Low-rank plus diag.",
        "BlockDiagonal": "Block-diagonal",
        "BlockDiagonalPlusLowRank": "Block-diag. plus low-rank",
    }
    name = f"{words.get(kind, kind)} {cell}"
    return f"{name}, weight norm" if model.weight_norm else name


def _digits(experiment: Experiment) -> int | None:
    return None if experiment.paper is None else _DIGITS.get(experiment.paper.where)


def _rounding(metric: str, digits: int | None) -> float:
    if digits is None:
        return 0.0
    return 0.5 * 10.0 ** -(digits + 2 if metric.startswith("accuracy") else digits)


def standard_error(accuracy: float) -> float:
    """Of an accuracy on the test digits: what drawing others would change."""
    return (accuracy * (1 - accuracy) / TEST_DIGITS) ** 0.5


def _difference(metric: str, gap: float) -> str:
    sign = "+" if gap >= 0 else "\u2212"
    if metric.startswith("accuracy"):
        return f"{sign}{100 * abs(gap):.2f} points"
    if metric.startswith(("perplexity", "bits", "error")):
        return f"{sign}{abs(gap):.3f}"
    return f"{sign}{numbers.significant(abs(gap), 2)}"
