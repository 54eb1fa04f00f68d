"""The tasks of an experiment as values: which data, how much of it, and in which form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from passnet.config.errors import ConfigurationError
from passnet.config.fields import check_range, check_types

Order = Literal["shuffled", "fixed", "file"]
SYNTHETIC_SIZES = (6000, 1000, 1000)
"""Synthetic digits of training, validation and test."""
_MNIST = (50_000, 10_000, 10_000)
"""Digits of MNIST in the same splits."""
_EMBEDDED = 51
"""Symbols of the text that comes with the library."""


@dataclass(frozen=True)
class CopyTask:
    """Repeat symbols after a gap of `lag` blanks (the paper's N).

    `fixed` is ten symbols and a gap of N; `variable_length` draws 1 to `length` symbols;
    `variable_lag` draws the gap from 1 to N. Training data are `train_size` sequences drawn once,
    or fresh for every update with None; validation and test sets have `eval_size` each. With
    `curriculum` the lag of training grows to `lag` over the first so many updates.
    """

    form: Literal["fixed", "variable_length", "variable_lag"] = "fixed"
    lag: int = 500
    length: int = 10
    train_size: int | None = 100_000
    eval_size: int = 10_000
    order: Order = "shuffled"
    data_seed: int = 0
    curriculum: int | None = None

    kind: ClassVar[str] = "copy"
    metrics: ClassVar[tuple[str, ...]] = ("cross_entropy_nats", "accuracy", "accuracy_on_symbols")
    inputs: ClassVar[int] = 10
    outputs: ClassVar[int] = 10

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "lag", "length", "train_size", "eval_size", "curriculum", low=1)


@dataclass(frozen=True)
class AdditionTask:
    """Sum the two marked numbers of a sequence of `steps` steps.

    Training marks one number in each half. Evaluation scores sequences marked so, as the paper
    says, and others marked anywhere, as the author's code does. Sizes as in CopyTask.
    """

    steps: int = 750
    train_size: int | None = 100_000
    eval_size: int = 10_000
    order: Order = "shuffled"
    data_seed: int = 0

    kind: ClassVar[str] = "addition"
    metrics: ClassVar[tuple[str, ...]] = ("mse_paper_distribution", "mse_author_distribution")
    inputs: ClassVar[int] = 2
    outputs: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "steps", low=2)
        check_range(self, "train_size", "eval_size", low=1)


@dataclass(frozen=True)
class SequentialMnistTask:
    """Classify a digit read one pixel a step.

    `author` is the permutation of the author's chain (seed 1234), `common` the one most papers use
    (seed 92916), None the reading order. `pool` averages squares of that side into one pixel, for
    (28 / pool)**2 steps. `synthetic` digits need no files; `sizes` are those of their splits.
    `label_smoothing` spreads that share of a training target over all digits; `mixup` lays a second
    digit over each one of training, as strongly as a number drawn between 0 and it says. Without
    `hold_out` the validation digits are trained on too, for settings that were chosen with it.
    """

    permutation: Literal["author", "common"] | None = "author"
    source: Literal["mnist", "synthetic"] = "mnist"
    pool: int = 1
    sizes: tuple[int, int, int] = SYNTHETIC_SIZES
    order: Order = "shuffled"
    label_smoothing: float = 0.0
    mixup: float = 0.0
    hold_out: bool = True

    kind: ClassVar[str] = "sequential_mnist"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "error_percent", "cross_entropy_nats")
    inputs: ClassVar[int] = 1
    outputs: ClassVar[int] = 10

    def __post_init__(self) -> None:
        check_types(self)
        _check_digits(self)


@dataclass(frozen=True)
class FlatMnistTask:
    """Classify a digit from all its pixels at once, in no order a model could use.

    `l2` weighs a penalty on the output matrix: the square of its norm, or with `l2_of="norm"` the
    norm, as the author's script has it. `loss` is the paper's squared hinge, or the cross-entropy,
    for which there is `label_smoothing`. The rest is as in SequentialMnistTask.
    """

    source: Literal["mnist", "synthetic"] = "mnist"
    pool: int = 1
    l2: float | None = 1e-3
    l2_of: Literal["square", "norm"] = "square"
    sizes: tuple[int, int, int] = SYNTHETIC_SIZES
    order: Order = "shuffled"
    loss: Literal["squared_hinge", "cross_entropy"] = "squared_hinge"
    label_smoothing: float = 0.0
    mixup: float = 0.0
    hold_out: bool = True

    kind: ClassVar[str] = "flat_mnist"
    metrics: ClassVar[tuple[str, ...]] = ("error_percent", "accuracy", "squared_hinge")
    outputs: ClassVar[int] = 10

    @property
    def inputs(self) -> int:
        """Pixels of an image."""
        return (28 // self.pool) ** 2

    def __post_init__(self) -> None:
        check_types(self)
        _check_digits(self)
        check_range(self, "l2", low=0, open_low=True)
        if self.label_smoothing and self.loss != "cross_entropy":
            raise ConfigurationError(
                f"label_smoothing: got {self.label_smoothing!r} with the {self.loss} loss, which "
                "has no shares to smooth; set loss='cross_entropy'"
            )


@dataclass(frozen=True)
class CharacterTask:
    """Predict the next character of a text.

    `embedded` is a small text that comes with the library; `file` reads `path`. `sentences` starts
    every line from the initial state, leaves training lines over `longest` characters out, and
    averages the cost within a sentence first, or with `average="character"` over all characters;
    `stream` carries the state through the text, `window` steps an update. `unk` says whether each
    `<unk>` is spelled out or one symbol. `vocabulary` is the number of symbols where it is known
    beforehand: the line end, the unknown symbol and the characters that occur.
    """

    source: Literal["ptb", "embedded", "file"] = "ptb"
    path: str | None = None
    mode: Literal["sentences", "stream"] = "sentences"
    unk: Literal["spelled", "symbol"] = "spelled"
    longest: int | None = None
    order: Order = "file"
    average: Literal["sentence", "character"] = "sentence"
    window: int | None = None
    vocabulary: int | None = None

    kind: ClassVar[str] = "character"
    metrics: ClassVar[tuple[str, ...]] = (
        "perplexity_macro",
        "perplexity_micro",
        "bits_per_character_micro",
        "cross_entropy_nats_micro",
        "cross_entropy_nats_macro",
        "accuracy",
    )

    @property
    def inputs(self) -> int | None:
        """Symbols read, or None until the text is known."""
        return _EMBEDDED if self.source == "embedded" else self.vocabulary

    @property
    def outputs(self) -> int | None:
        """Symbols predicted, or None until the text is known."""
        return self.inputs

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "window", "longest", low=1)
        check_range(self, "vocabulary", low=3)
        if (self.source == "file") != (self.path is not None):
            raise ConfigurationError(
                f"path: got {self.path!r} with source {self.source!r}, but a path belongs with "
                "source=file, and source=file needs one"
            )
        if (self.mode == "stream") != (self.window is not None):
            raise ConfigurationError(
                f"window: got {self.window!r} with mode {self.mode!r}, but a stream needs a window "
                "(such as 35 steps) and sentences have none"
            )
        if self.mode == "stream" and (
            self.longest is not None or self.order != "file" or self.average != "sentence"
        ):
            raise ConfigurationError(
                "longest, order and average serve mode 'sentences' only: leave them at none, file "
                "and sentence, because a stream is read in order and whole"
            )


Task = CopyTask | AdditionTask | SequentialMnistTask | FlatMnistTask | CharacterTask


def training_examples(task: Task) -> int | None:
    """How many examples an epoch has; None for fresh data, and for a text, which must be read."""
    if isinstance(task, CharacterTask):
        return None
    if isinstance(task, CopyTask | AdditionTask):
        return task.train_size
    train, valid, _ = digit_splits(task)
    return train if task.hold_out else train + valid


def digit_splits(task: SequentialMnistTask | FlatMnistTask) -> tuple[int, int, int]:
    """How many digits of training, validation and test there are."""
    return _MNIST if task.source == "mnist" else task.sizes


def _check_digits(task: SequentialMnistTask | FlatMnistTask) -> None:
    check_range(task, "label_smoothing", low=0, high=1, open_high=True)
    check_range(task, "mixup", low=0, high=0.5)
    if task.pool < 1 or 28 % task.pool:
        raise ConfigurationError(f"pool: got {task.pool}, expected 1, 2, 4, 7, 14 or 28")
    if min(task.sizes) < 1:
        raise ConfigurationError(f"sizes: got {task.sizes}, expected three numbers of at least 1")
    if task.source == "mnist" and task.sizes != SYNTHETIC_SIZES:
        raise ConfigurationError(
            f"sizes: got {task.sizes} with source 'mnist', which is always read whole: leave them "
            f"at {SYNTHETIC_SIZES}, or set source to 'synthetic'"
        )
