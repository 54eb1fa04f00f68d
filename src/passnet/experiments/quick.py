"""Every task in a minute or two on a CPU, with no data files: small, ours, and meant to learn."""

from __future__ import annotations

from passnet.config.chrono import Chrono
from passnet.config.experiment import Experiment
from passnet.config.matrix import LowRank, LowRankPlusDiagonal
from passnet.config.model import Model
from passnet.config.tasks import (
    AdditionTask,
    CharacterTask,
    CopyTask,
    FlatMnistTask,
    SequentialMnistTask,
)
from passnet.config.training import Adam, ClipNorm, Cosine, Selection

PRESETS = (
    Experiment(
        name="quick/copy",
        task=CopyTask(lag=10, train_size=None, eval_size=1_000),
        model=Model(
            size=128,
            matrix=LowRankPlusDiagonal(32),
            carry_bias=Chrono(30),
            learn_initial_state=True,
        ),
        optimiser=Adam(1e-2),
        clipping=ClipNorm(1.0),
        schedule=Cosine(warmup=50),
        batch_size=32,
        updates=2_000,
        evaluate_every=200,
        selection=Selection("cross_entropy_nats", "min"),
        notes=(
            "The paper's task is copy-500/lrd-gru-128-50: below 0.001 nats within 35 000 updates.",
        ),
    ),
    Experiment(
        name="quick/addition",
        task=AdditionTask(steps=50, train_size=None, eval_size=1_000),
        model=Model(size=64, matrix=LowRank(12), carry_bias=Chrono(50), learn_initial_state=True),
        optimiser=Adam(1e-2),
        clipping=ClipNorm(1.0),
        schedule=Cosine(warmup=50),
        batch_size=64,
        updates=1_000,
        evaluate_every=100,
        selection=Selection("mse_paper_distribution", "min"),
        notes=("The paper's task is addition-750/lr-gru-128-24: 0.003 after 14 500 updates.",),
    ),
    Experiment(
        name="quick/sequential-digits",
        task=SequentialMnistTask(permutation="common", source="synthetic", pool=4),
        model=Model(
            size=64,
            matrix=LowRankPlusDiagonal(24),
            carry_bias=Chrono(49),
            learn_initial_state=True,
        ),
        optimiser=Adam(5e-3),
        clipping=ClipNorm(1.0),
        schedule=Cosine(warmup=50),
        batch_size=50,
        epochs=12,
        selection=Selection("accuracy", "max"),
        notes=("The paper's best is psmnist/lrd-gru-256-24: 94.7 % of real digits.",),
    ),
    Experiment(
        name="quick/highway-digits",
        task=FlatMnistTask(source="synthetic", pool=2, l2=1e-4),
        model=Model(
            size=128,
            cell="highway",
            num_layers=3,
            matrix=LowRankPlusDiagonal(24),
            carry_bias=1.0,
            batch_norm=True,
            dropout_input=0.1,
            dropout_state=0.1,
            dropout_bottleneck=0.1,
            dropout_output=0.2,
        ),
        optimiser=Adam(3e-3),
        schedule=Cosine(warmup=50),
        batch_size=100,
        epochs=6,
        selection=Selection("accuracy", "max"),
        notes=("The paper's task is highway-mnist/lr-1024-256: 1.17 % errors on real digits.",),
    ),
    Experiment(
        name="quick/character-stream",
        task=CharacterTask(source="embedded", mode="stream", window=50),
        model=Model(
            size=192,
            matrix=LowRankPlusDiagonal(32, tied=True),
            dropout_state=0.2,
            dropout_output=0.2,
        ),
        optimiser=Adam(5e-3),
        clipping=ClipNorm(1.0),
        schedule=Cosine(warmup=50),
        batch_size=16,
        updates=800,
        evaluate_every=100,
        selection=Selection("bits_per_character_micro", "min"),
        notes=(
            "The paper's task is char-lm/lrd-lstm-1740-300-dropout: perplexity 2.86, 1.52 bits.",
        ),
    ),
    Experiment(
        name="quick/character-sentences",
        task=CharacterTask(source="embedded", mode="sentences", longest=150, order="shuffled"),
        model=Model(
            size=192,
            matrix=LowRankPlusDiagonal(32),
            dropout_input=0.05,
            dropout_input_per="step",
            dropout_state=0.2,
            dropout_output=0.2,
        ),
        optimiser=Adam(5e-3),
        clipping=ClipNorm(1.0),
        schedule=Cosine(warmup=50),
        batch_size=16,
        updates=500,
        evaluate_every=100,
        selection=Selection("perplexity_macro", "min"),
        notes=("The paper's best is char-lm/lrd-gru-6985-64-tied-dropout: perplexity 2.76.",),
    ),
)
