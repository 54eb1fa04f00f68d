"""Recipes of ours at the parameter budgets of the paper, chosen by their validation scores."""

from __future__ import annotations

from dataclasses import replace

from passnet.config.chrono import Chrono
from passnet.config.experiment import Aim, Experiment, PaperResult
from passnet.config.matrix import LowRank, LowRankPlusDiagonal
from passnet.config.model import Model
from passnet.config.tasks import (
    AdditionTask,
    CharacterTask,
    CopyTask,
    FlatMnistTask,
    SequentialMnistTask,
)
from passnet.config.training import Adam, AdamW, Averaging, ClipNorm, Cosine, Selection


def _psmnist(
    size: int,
    rank: int,
    *,
    dropout: float,
    optimiser: Adam | AdamW,
    epochs: int,
    budget: str,
    aim: float,
    paper: PaperResult,
) -> Experiment:
    return Experiment(
        name=f"beyond/psmnist-{budget}",
        task=SequentialMnistTask(permutation="common"),
        model=Model(
            size=size,
            matrix=LowRankPlusDiagonal(rank, tied=True),
            reset="after",
            carry_bias=Chrono(784),
            learn_initial_state=True,
            init="balanced",
            dropout_state=dropout,
        ),
        optimiser=optimiser,
        clipping=ClipNorm(1.0),
        schedule=Cosine(warmup=500),
        ema=Averaging(0.999, start=0.66),
        batch_size=128,
        epochs=epochs,
        selection=Selection("accuracy", "max"),
        paper=paper,
        aim=Aim("accuracy", aim),
        notes=(
            "The projections are tied, and what that saves is spent on rank: there are at most "
            f"{budget} parameters by the true count.",
            "The permutation is that of later papers; the rows of table 1 have the author's.",
            "Without dropout, at a learning rate of 3e-3, the training loss ends near zero and the "
            "accuracy is a point lower on validation; with dropout a learning rate of 3e-3 "
            "diverged. Mixup with less dropout was worse at 42k, weight decay at 21k. Longer is "
            "better: at 42k 96.5, 96.8, 97.0 and 97.2 % on validation after 120, 240, 360 and 600 "
            "epochs, at 21k 95.3 and 96.2 after 120 and 600.",
            "Carry bias, balanced start and averaging were not varied by themselves at full "
            "length, so which of them helps is not known.",
        ),
    )


PSMNIST_42K = _psmnist(
    256,
    36,
    dropout=0.15,
    optimiser=AdamW(2e-3, weight_decay=0.05),
    epochs=600,
    budget="42k",
    aim=0.967,
    paper=PaperResult(
        where="table 1", metric="accuracy", value=0.947, validation=0.951, parameters="41.2k"
    ),
)
PSMNIST_21K = _psmnist(
    192,
    22,
    dropout=0.1,
    optimiser=Adam(2e-3),
    epochs=600,
    budget="21k",
    aim=0.956,
    paper=PaperResult(
        where="table 1", metric="accuracy", value=0.935, validation=0.941, parameters="20.6k"
    ),
)


def _with_all_digits(held: Experiment) -> Experiment:
    """As many updates on the digits of training and validation together; the last ones count."""
    assert isinstance(held.task, SequentialMnistTask)
    return replace(
        held,
        name=f"{held.name}-all-digits",
        task=replace(held.task, hold_out=False),
        epochs=500,
        selection=replace(held.selection, keep="last"),
        notes=(
            f"The settings of {held.name}, which were chosen on the validation digits, with these "
            "trained on as well: 60 000 digits, no choice by any score, one test at the end.",
        ),
    )


PTB = Experiment(
    name="beyond/ptb-2.6M",
    task=CharacterTask(source="ptb", mode="stream", window=150, vocabulary=51),
    model=Model(
        size=2048,
        matrix=LowRankPlusDiagonal(256, tied=True),
        reset="after",
        init="balanced",
        dropout_input=0.05,
        dropout_input_per="step",
        dropout_state=0.15,
        dropout_output=0.1,
    ),
    optimiser=Adam(2e-3, weight_decay=1e-6),
    clipping=ClipNorm(1.0),
    schedule=Cosine(warmup=500),
    ema=Averaging(0.999, start=0.66),
    batch_size=64,
    epochs=70,
    selection=Selection("bits_per_character_micro", "min"),
    paper=PaperResult(
        where="table 2",
        metric="perplexity_macro",
        value=2.76,
        relation="unlike",
        parameters="2.54M",
    ),
    aim=Aim("bits_per_character_micro", 1.29),
    notes=(
        "The state is carried through the text; the paper's 2.76 (about 1.465 bits) starts every "
        "sentence anew and averages over sentences, so the two are not the same measure.",
        "With dropout of 0.2 on state and output, and 60 epochs, the language model has 1.329 bits "
        "on validation, not 1.310. Balanced start, averaging and tied projections were not varied, "
        "so which of them helps is not known.",
    ),
)

COPY_500 = Experiment(
    name="beyond/copy-500",
    task=CopyTask(form="fixed", lag=500, train_size=None, curriculum=2500),
    model=Model(
        size=128,
        matrix=LowRankPlusDiagonal(50),
        reset="after",
        carry_bias=1.0,
        learn_initial_state=True,
        init="balanced",
    ),
    optimiser=Adam(1e-2),
    clipping=ClipNorm(1.0),
    schedule=Cosine(warmup=200),
    batch_size=128,
    updates=5_000,
    evaluate_every=250,
    selection=Selection("cross_entropy_nats", "min"),
    paper=PaperResult(
        where="section 3, memory task",
        metric="cross_entropy_nats",
        value=1e-3,
        relation="below",
        updates=35_000,
        parameters="41738",
    ),
    aim=Aim("cross_entropy_nats", 1e-3),
    notes=(
        "Every update of the memory task has fresh sequences; the paper draws 100000 once. The lag "
        "grows to 500 over the first half of the updates; validation and test have lag 500 from "
        "the start.",
        "Without the curriculum, at carry bias 4, three seeds stayed at 0.030 to 0.038 nats "
        "(0.040 is chance). Chosen on validation at lag 100, batch 64, 1500 updates, one seed: "
        "0.013 nats, against 0.030 with carry bias 4, 0.13 with learning rate 3e-3, 0.17 with "
        "carry bias 4 and the reset before the matrix; 2e-2 was better still there (0.0027), 4e-2 "
        "failed.",
    ),
)

ADDITION_750 = Experiment(
    name="beyond/addition-750",
    task=AdditionTask(steps=750, train_size=None),
    model=Model(
        size=128,
        matrix=LowRank(24),
        reset="after",
        carry_bias=Chrono(750),
        learn_initial_state=True,
        init="balanced",
    ),
    optimiser=Adam(2.6e-3),
    clipping=ClipNorm(1.0),
    schedule=Cosine(warmup=200),
    ema=Averaging(0.999, start=0.66),
    batch_size=50,
    updates=14_500,
    evaluate_every=500,
    selection=Selection("mse_paper_distribution", "min"),
    paper=PaperResult(
        where="section 3, addition task",
        metric="mse_paper_distribution",
        value=0.003,
        updates=14_500,
    ),
    aim=Aim("mse_paper_distribution", 1e-4),
    notes=("Every update of the addition task has fresh sequences; the paper draws 100000 once.",),
)

HIGHWAY = Experiment(
    name="beyond/highway-mnist",
    task=FlatMnistTask(l2=None, mixup=0.5),
    model=Model(
        size=1024,
        cell="highway",
        num_layers=5,
        matrix=LowRank(256),
        activation="relu",
        carry_bias=1.0,
        batch_norm=True,
        max_row_norm=2.0,
        dropout_input=0.2,
        dropout_state=0.3,
        dropout_bottleneck=0.3,
        dropout_output=0.5,
    ),
    optimiser=AdamW(2e-3, weight_decay=0.05),
    clipping=ClipNorm(1.0),
    schedule=Cosine(warmup=500),
    ema=Averaging(0.9995, start=0.5),
    batch_size=128,
    epochs=200,
    selection=Selection("error_percent", "min"),
    paper=PaperResult(where="appendix A.1", metric="accuracy", value=0.9883),
    aim=Aim("accuracy", 0.99),
)

PRESETS = (
    PSMNIST_42K,
    PSMNIST_21K,
    _with_all_digits(PSMNIST_42K),
    _with_all_digits(PSMNIST_21K),
    PTB,
    replace(
        PTB,
        name="beyond/ptb-2.6M-wide",
        model=replace(PTB.model, size=3600, matrix=LowRankPlusDiagonal(128, tied=True)),
        notes=(
            "The state is wider than that of beyond/ptb-2.6M and the rank lower, with about as "
            "many parameters.",
            *PTB.notes,
        ),
    ),
    COPY_500,
    ADDITION_750,
    HIGHWAY,
)
