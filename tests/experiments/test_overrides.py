"""`--set key=value`: what is accepted, and what a mistake is answered with."""

from __future__ import annotations

import pytest

from passnet.config import (
    Adam,
    Averaging,
    Chrono,
    ClipNorm,
    ConfigurationError,
    Cosine,
    Dense,
    LowRank,
    LowRankPlusDiagonal,
    Selection,
    apply_overrides,
    differences,
    settings,
)
from passnet.experiments import get

BASE = get("psmnist/lrd-gru-128-24")


@pytest.mark.parametrize(
    ("override", "key", "expected"),
    [
        ("optimiser.learning_rate=1e-3", "optimiser.learning_rate", 1e-3),
        ("batch_size=64", "batch_size", 64),
        ("batch_size = 64", "batch_size", 64),
        ("updates=2e4", "updates", 20_000),
        ("updates=20_000", "updates", 20_000),
        ("seed=3", "seed", 3),
        ("precision=bf16", "precision", "bf16"),
        ("model.weight_norm=yes", "model.weight_norm", True),
        ("model.max_row_norm=10", "model.max_row_norm", 10.0),
        ("model.carry_bias=none", "model.carry_bias", None),
        ("model.carry_bias=Chrono(784)", "model.carry_bias", Chrono(784)),
        ("model.carry_bias=chrono:784", "model.carry_bias", Chrono(784)),
        ("model.matrix=Dense", "model.matrix", Dense()),
        ("model.matrix=LowRank(24)", "model.matrix", LowRank(24)),
        ("model.matrix=LowRank(rank=24, tied=true)", "model.matrix", LowRank(24, tied=True)),
        ("model.matrix=low-rank:24", "model.matrix", LowRank(24)),
        ("model.matrix=low_rank:24,tied", "model.matrix", LowRank(24, tied=True)),
        (
            'model.matrix={"kind": "low-rank-plus-diagonal", "rank": 3}',
            "model.matrix",
            LowRankPlusDiagonal(3),
        ),
        ("model.matrix.rank=8", "model.matrix", LowRankPlusDiagonal(8)),
        ("schedule=cosine:500", "schedule", Cosine(500)),
        ("schedule=Cosine(warmup=500, final=0.1)", "schedule", Cosine(500, 0.1)),
        ("clipping=norm:0.5", "clipping", ClipNorm(0.5)),
        ("clipping=none", "clipping", None),
        ("ema=Averaging(0.99)", "ema", Averaging(0.99)),
        ("ema=Averaging", "ema", Averaging()),
        ("nan_policy=0.1", "nan_policy", 0.1),
        ("optimiser=Adam(1e-3, betas=(0, 0.99))", "optimiser", Adam(1e-3, betas=(0.0, 0.99))),
        ("task.permutation=common", "task.permutation", "common"),
        ("task.permutation=none", "task.permutation", None),
        ("task.sizes=6000,1000,1000", "task.sizes", (6000, 1000, 1000)),
    ],
)
def test_accepted(override, key, expected):
    value = apply_overrides(BASE, [override])
    for name in key.split("."):
        value = getattr(value, name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.learning_rate=1e-3", r"perhaps you meant 'optimiser.learning_rate'"),
        ("learning_rate=1e-3", r"perhaps you meant 'optimiser.learning_rate'"),
        ("optimiser.learningrate=1e-3", r"perhaps you meant 'optimiser.learning_rate'"),
        ("model.dropuot_state=0.5", r"perhaps you meant 'model.dropout_state'"),
        ("precision=bfloat16", r"perhaps you meant 'bf16'"),
        ("precision=float", r"perhaps you meant 'float32'"),
        ("task.sizes=10,20,30", r"task.sizes: got \(10, 20, 30\) with source 'mnist'"),
        ("optimiser.learning_rate=fast", r"rate: got 'fast', expected a number"),
        ("optimiser.learning_rate=-1", r"rate: got -1.0, expected a number above 0"),
        ("optimiser.learning_rate=inf", r"rate: got inf, expected a number"),
        ("optimiser.learning_rate.x=3", r"has no key 'x': set optimiser.learning_rate itself"),
        ("updates=2.5", r"updates: got '2.5', expected a whole number or none"),
        ("model.weight_norm=maybe", r"got 'maybe', expected true or false"),
        ("model.reset=befor", r"expected 'after' or 'before'; perhaps you meant 'before'"),
        ("model.matrix=LowRnk(3)", r"expected .*; perhaps you meant 'LowRank'"),
        ("model.matrix=low-rnk:3", r"perhaps you meant 'low-rank'"),
        ("model.matrix=24", r"got '24', expected Dense\(\), LowRank\(rank, tied\)"),
        ("model.matrix=LowRank", r"model.matrix: LowRank needs rank"),
        ("ema=null", r"ema: got 'null', expected Averaging\(decay, start\) or none; known are"),
        ("model.matrix=LowRank(big)", r"model.matrix.rank: got 'big', expected a whole number"),
        ("model.matrix=LowRank(4, rnk=5)", r"got 'rnk=5' .*perhaps you meant 'rank'"),
        ("model.matrix=LowRank(4, rank=5)", r"got 'rank=5'"),
        ("model.matrix=LowRank(1,true,3)", r"got '3' in"),
        ("model.matrix={", r"is not JSON"),
        ("model.matrix=LowRank(500)", r"model: rank=500 does not fit a state of 128"),
        ("model.matrix.blocks=2", r"set model.matrix=BlockDiagonal\(blocks\)"),
        ("model.matrix.kind=dense", r"set model.matrix itself: model.matrix=Dense\(\) or LowRank"),
        ("optimiser.kind=sgd", r"optimiser.kind: set optimiser itself: optimiser=RmsProp\(.*\) or"),
        ("schedule.warmup=500", r"schedule is Constant.*set schedule=Cosine\(warmup, final\)"),
        ("ema.decay=0.9", r"ema is None.*set ema=Averaging\(decay, start\)"),
        ("optimiser=Adam(1e-3, betas=0.9)", r"betas: got '0.9', expected 2 values"),
        ("model.cell=highway", r"highway"),
        ("paper.value=1", r"cannot be set"),
        ("name=mine", r"cannot be set"),
        ("seed", r"got 'seed', expected key=value"),
        ("=3", r"expected key=value"),
    ],
)
def test_refused(override, message):
    with pytest.raises(ConfigurationError, match=message):
        apply_overrides(BASE, [override])


def test_smoothing_needs_shares():
    flat = get("beyond/highway-mnist")
    with pytest.raises(ConfigurationError, match=r"got 0.1 with the squared_hinge loss"):
        apply_overrides(flat, ["task.label_smoothing=0.1"])
    with pytest.raises(ConfigurationError, match=r"at least 0 and below 1"):
        apply_overrides(flat, ["task.loss=cross_entropy", "task.label_smoothing=1"])
    with pytest.raises(ConfigurationError, match=r"mixup: .* 0\.5"):
        apply_overrides(flat, ["task.mixup=0.7"])
    found = apply_overrides(flat, ["task.loss=cross_entropy", "task.label_smoothing=0.1"])
    assert (found.task.loss, found.task.label_smoothing) == ("cross_entropy", 0.1)


def test_nothing_is_decided_by_digits_that_are_trained_on():
    held = get("beyond/psmnist-21k")
    last = ["task.hold_out=false", "selection.keep=last"]
    assert apply_overrides(held, last).task.hold_out is False
    for more, decides in (
        (["selection.keep=best"], "selection.keep"),
        (["patience=3"], "patience"),
        (["schedule=HalveOnPlateau"], "schedule"),
    ):
        with pytest.raises(ConfigurationError, match=f"hold_out: got False, but {decides} decides"):
            apply_overrides(held, [*last, *more])
    most = 60_000
    assert apply_overrides(held, [*last, f"batch_size={most}"]).batch_size == most
    with pytest.raises(ConfigurationError, match="there are 50000 training examples"):
        apply_overrides(held, [f"batch_size={most}"])


def test_overrides_are_judged_together_not_one_by_one():
    changed = apply_overrides(BASE, ["model.size=16", "model.matrix=LowRank(8)"])
    assert (changed.model.size, changed.model.matrix) == (16, LowRank(8))
    with pytest.raises(ConfigurationError, match="rank=24 does not fit a state of 16"):
        apply_overrides(BASE, ["model.size=16"])


def test_later_overrides_refine_earlier_ones():
    changed = apply_overrides(BASE, ["schedule=Cosine", "schedule.warmup=7", "schedule.final=0.5"])
    assert changed.schedule == Cosine(7, 0.5)


def test_updates_and_epochs_replace_each_other():
    changed = apply_overrides(BASE, ["epochs=3"])
    assert (changed.updates, changed.epochs) == (None, 3)
    with pytest.raises(ConfigurationError, match="exactly one"):
        apply_overrides(BASE, ["epochs=3", "updates=5"])


def test_the_metric_of_selection_brings_its_direction():
    digits = get("quick/highway-digits")
    changed = apply_overrides(digits, ["selection.metric=error_percent"])
    assert changed.selection == Selection("error_percent", "min")
    assert apply_overrides(changed, ["selection.metric=accuracy"]).selection.mode == "max"
    for wrong in (
        ["selection.mode=min"],
        ["selection.metric=error_percent", "selection.mode=max"],
        ['selection={"metric": "error_percent", "mode": "max"}'],
    ):
        with pytest.raises(ConfigurationError, match=r"^selection.mode: got .* the worst: give"):
            apply_overrides(digits, wrong)
    with pytest.raises(ConfigurationError, match="perhaps you meant 'error_percent'"):
        apply_overrides(digits, ["selection.metric=eror_percent"])


def test_a_changed_experiment_is_no_longer_the_protocol_of_the_paper():
    assert apply_overrides(BASE, []).protocol == "paper"
    assert apply_overrides(BASE, ["seed=4", "accumulate=2"]).protocol == "paper"
    assert apply_overrides(BASE, ["batch_size=20"]).protocol == "paper"
    assert apply_overrides(BASE, ["batch_size=21"]).protocol == "ours"


def test_the_given_experiment_is_left_as_it_was():
    before = get("psmnist/lrd-gru-128-24")
    apply_overrides(before, ["model.size=256"])
    assert before == get("psmnist/lrd-gru-128-24")
    assert before.model.size == 128


def test_differences_name_the_keys():
    changed = apply_overrides(BASE, ["batch_size=64", "model.carry_bias=none"])
    assert differences(BASE, changed) == {
        "batch_size": (20, 64),
        "model.carry_bias": (5.0, None),
    }


def test_every_listed_key_can_be_named():
    keys = settings(BASE)
    assert {"seed", "model.matrix", "model.matrix.rank", "optimiser.learning_rate"} <= set(keys)
    assert not {"name", "paper", "paper.value", "notes", "model.matrix.kind"} & set(keys)


def test_synthetic_digits_have_sizes():
    changed = apply_overrides(BASE, ["task.sizes=40,20,30", "task.source=synthetic"])
    assert changed.task.sizes == (40, 20, 30)
