"""The memory task of the paper in its three forms, for the models the paper trains on it."""

from __future__ import annotations

from dataclasses import replace

from passnet.config.experiment import Experiment, PaperResult
from passnet.config.matrix import LowRankPlusDiagonal
from passnet.config.model import Model
from passnet.config.tasks import CopyTask
from passnet.config.training import ClipNorm, RmsProp, Selection

GRU = Model(size=128, reset="before", carry_bias=4.0, learn_initial_state=True)
LRD_GRU = replace(GRU, matrix=LowRankPlusDiagonal(50))
LRD_GRU_WN = replace(LRD_GRU, weight_norm=True, max_row_norm=10.0)
URNN = Model(size=721, cell="urnn")

_RECORD = PaperResult(
    where="section 3, memory task", metric="cross_entropy_nats", figure="figure 2"
)
_NO_NUMBER = "The paper prints no number for this model on this form of the task."
_URNN_NOTES = (
    "In the author's copy of the uRNN both Fourier transforms are commented out; here they are in.",
    "The paper gives the uRNN no settings of its own: those of the GRU rows are used. The author's "
    "script clips none of its gradients.",
    "721 units hold 36060 parameters, not quite the 41738 the paper calls about the same.",
)


def _row(
    form: str,
    task: CopyTask,
    name: str,
    model: Model,
    *,
    updates: int,
    paper: PaperResult = _RECORD,
    notes: tuple[str, ...] = (),
) -> Experiment:
    return Experiment(
        name=f"{form}/{name}",
        task=task,
        model=model,
        optimiser=RmsProp(1e-3, epsilon=1e-8),
        clipping=ClipNorm(1.0),
        # The weight-normalised variant was trained without NaN recovery.
        nan_policy="stop" if model.weight_norm else 0.1,
        batch_size=20,
        updates=updates,
        evaluate_every=500,
        selection=Selection("cross_entropy_nats", "min"),
        protocol="paper",
        paper=paper,
        notes=(
            *notes,
            "The paper validates and tests on one held-out set; here each has its own 10000.",
        ),
    )


def _rows(
    form: str,
    task: CopyTask,
    *,
    solved: int,
    baseline: int,
    gru: str,
    lrd: tuple[str, ...] = (),
    urnn: str,
    curve: str | None = None,
) -> tuple[Experiment, ...]:
    """Four models on one form; `solved` is the number of updates the paper says it needs."""
    reached = replace(
        _RECORD,
        value=1e-3,
        relation="below",
        updates=solved,
        parameters="41738",
        curve=curve,
    )
    faster = (
        "The paper says that with weight norm training is more stable and converges faster, "
        "without a number."
    )
    return (
        _row(form, task, "gru-128", GRU, updates=baseline, notes=(gru,)),
        _row(form, task, "lrd-gru-128-50", LRD_GRU, updates=solved, paper=reached, notes=lrd),
        _row(form, task, "lrd-gru-128-50-wn", LRD_GRU_WN, updates=solved, notes=(faster,)),
        _row(form, task, "urnn-721", URNN, updates=solved, notes=(urnn, *_URNN_NOTES)),
    )


PRESETS = (
    *_rows(
        "copy-500",
        CopyTask(form="fixed", lag=500),
        solved=35_000,
        baseline=100_000,
        gru="The paper solves the task with the dense GRU, much more slowly than with the uRNN, "
        "and prints no number of updates: the 100000 here are ours.",
        lrd=(
            "At a learning rate of 1.5e-3 instead of the paper's 1e-3 three of three seeds are "
            "below 1e-3 nats by update 24000.",
        ),
        urnn="In the paper the uRNN is perfect on the training set in under 2000 updates and "
        "overfits.",
    ),
    *_rows(
        "copy-variable-length",
        CopyTask(form="variable_length", lag=100),
        solved=30_000,
        baseline=60_000,
        gru=_NO_NUMBER,
        lrd=(
            "The author's curve is first below 1e-3 at update 25500.",
            "The author's curve is what a learning rate of 1.5e-3 gives here, not the paper's "
            "1e-3: at that rate four of seven runs are below 1e-3 nats within 30000 updates.",
        ),
        urnn="In the paper the uRNN learns faster than the low-rank plus diagonal GRU, on par with "
        "the weight-normalised one; no number is printed.",
        curve="copy_variable_length_lrd_gru_128_50",
    ),
    *_rows(
        "copy-variable-lag",
        CopyTask(form="variable_lag", lag=100),
        solved=38_000,
        baseline=76_000,
        gru=_NO_NUMBER,
        lrd=("The paper adds that test accuracy is perfect at update 87000.",),
        urnn="In the paper the uRNN does not converge within the author's (unstated) time limit.",
    ),
)
