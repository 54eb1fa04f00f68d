"""Experiments as JSON: exact round trips, and errors that name the key."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from passnet.config import (
    Aim,
    CharacterTask,
    Chrono,
    ConfigurationError,
    Model,
    differences,
    from_json,
    identity,
    to_json,
)
from passnet.experiments import get, names


@pytest.mark.parametrize("name", names())
def test_round_trip_is_exact(name):
    experiment = get(name)
    text = json.dumps(to_json(experiment), allow_nan=False)
    again = from_json(json.loads(text))
    assert again == experiment
    assert json.dumps(to_json(again)) == text
    assert identity(again) == identity(experiment)


def test_the_form_is_complete_and_readable():
    plain = to_json(get("beyond/psmnist-42k"))
    assert plain["model"]["matrix"] == {
        "kind": "low-rank-plus-diagonal",
        "rank": 36,
        "tied": True,
    }
    assert plain["model"]["carry_bias"] == {"kind": "chrono", "t_max": 784.0}
    assert plain["clipping"] == {"kind": "norm", "limit": 1.0}
    assert plain["task"]["kind"] == "sequential_mnist"
    assert plain["optimiser"]["betas"] == [0.9, 0.999]
    assert plain["updates"] is None


def test_keys_with_a_default_may_be_missing():
    plain = to_json(get("psmnist/gru-128"))
    del plain["precision"], plain["model"]["zoneout"], plain["ema"]
    assert from_json(plain) == get("psmnist/gru-128")


def broken(change) -> dict:
    plain = to_json(get("psmnist/lrd-gru-128-24"))
    change(plain)
    return plain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(bach_size=3), r"bach_size: .*perhaps you meant 'batch_size'"),
        (lambda p: p["model"].update(carrybias=3), r"model.carrybias: .*'carry_bias'"),
        (lambda p: p["model"]["matrix"].update(rnk=3), r"model.matrix.rnk: .*'rank'"),
        (lambda p: p.update(batch_size="20"), r"batch_size: got '20', expected a whole number"),
        (lambda p: p.update(batch_size=20.0), r"batch_size: got 20.0, expected a whole number"),
        (lambda p: p.update(batch_size=True), r"batch_size: got True, expected a whole number"),
        (lambda p: p.update(batch_size=None), r"batch_size: got None, expected a whole number"),
        (lambda p: p.update(batch_size=0), r"batch_size: got 0, expected a number at least 1"),
        (lambda p: p["model"].update(weight_norm=1), r"model.weight_norm: got 1, expected true"),
        (lambda p: p["model"].update(reset="never"), r"model.reset: .*'after' or 'before'"),
        (lambda p: p["model"].update(dropout_state=1.0), r"model.dropout_state: .*below 1"),
        (lambda p: p["model"].update(matrix=24), r"model.matrix: got 24, expected .*LowRank\("),
        (lambda p: p["model"]["matrix"].update(rank=129), r"model: rank=129 does not fit"),
        (lambda p: p["model"]["matrix"].update(kind="lowrank"), r"matrix.kind: .*'low-rank'"),
        (lambda p: p["model"]["matrix"].pop("kind"), r"model.matrix.kind: got None"),
        (lambda p: p["model"]["matrix"].pop("rank"), r"model.matrix: .* needs rank"),
        (lambda p: p.pop("model"), r"needs model, which is missing"),
        (lambda p: p.update(optimiser=[1]), r"optimiser: got \[1\], expected RmsProp\("),
        (lambda p: p.update(epochs=3), r"updates=325500 and epochs=3: give exactly one"),
        (lambda p: p.update(notes=[1]), r"notes: got 1, expected text"),
        (lambda p: p.update(accumulate=3), r"accumulate: got 3, expected a divisor"),
        (lambda p: p["selection"].update(metric="acuracy"), r"perhaps you meant 'accuracy'"),
        (lambda p: p["task"].update(pool=3), r"task.pool: got 3, expected 1, 2, 4"),
        (lambda p: p["task"].update(sizes=[5, 5, 0]), r"task.sizes: got \(5, 5, 0\)"),
        (lambda p: p["task"].update(hold_out=False), r"hold_out: got False, but selection.keep"),
        (lambda p: p.update(nan_policy=2.0), r"nan_policy: got 2.0"),
        (lambda p: p["optimiser"].update(learning_rate=float("nan")), r"learning_rate: got nan"),
    ],
)
def test_a_wrong_file_is_answered_with_a_sentence(change, message):
    with pytest.raises(ConfigurationError, match=message):
        from_json(broken(change))


@pytest.mark.parametrize("plain", [None, [], "psmnist/gru-128", 3])
def test_what_is_no_experiment_at_all_is_refused(plain):
    with pytest.raises(ConfigurationError, match="the experiment: got"):
        from_json(plain)


def test_a_pair_must_be_a_pair():
    plain = to_json(get("char-lm/gru-1000"))
    plain["optimiser"]["betas"] = [0.9]
    with pytest.raises(ConfigurationError, match=r"optimiser.betas: got \[0.9\]"):
        from_json(plain)


def test_a_whole_number_for_a_float_is_the_same_experiment():
    experiment = get("psmnist/gru-128")
    same = replace(experiment, model=replace(experiment.model, carry_bias=5))
    assert identity(same) == identity(experiment)


def test_identity_ignores_descriptions_and_nothing_else():
    experiment = get("psmnist/gru-128")
    described = replace(experiment, name="mine", notes=("a",), paper=None, protocol="ours")
    described = replace(described, aim=Aim("accuracy", 1.0))
    assert identity(described) == identity(experiment)
    assert differences(described, experiment) == {}
    for changed in (
        replace(experiment, seed=1),
        replace(experiment, precision="bf16"),
        replace(experiment, model=replace(experiment.model, carry_bias=Chrono(784))),
        replace(experiment, task=replace(experiment.task, permutation="common")),
    ):
        assert identity(changed) != identity(experiment)
        assert differences(changed, experiment)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": "128"}, "size: got '128', expected a whole number"),
        ({"size": 0}, "size: got 0"),
        ({"size": 8, "cell": "lstm", "reset": "before"}, "serves only gru"),
        ({"size": 8, "cell": "urnn", "dropout_state": 0.5}, "serves only gru and lstm"),
        ({"size": 8, "cell": "urnn", "dropout_input_per": "step"}, "serves only gru and lstm"),
        ({"size": 8, "cell": "highway", "dropout_input_per": "step"}, "serves only gru and lstm"),
        ({"size": 8, "cell": "urnn", "num_layers": 2}, "num_layers: got 2 with cell 'urnn'"),
        ({"size": 8, "cell": "highway", "carry_bias": Chrono(9)}, "give a number"),
        ({"size": 8, "batch_norm": True}, "serves only highway"),
        ({"size": 8, "reset": "before", "recurrent_bias": True}, "ordinary bias once more"),
        ({"size": 8, "carry_bias": "big"}, "carry_bias: got 'big'"),
    ],
)
def test_values_check_themselves_when_made_in_python(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        Model(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "stream"}, "a stream needs a window"),
        ({"window": 35}, "sentences have none"),
        ({"mode": "stream", "window": 35, "longest": 9}, "serve mode 'sentences' only"),
        ({"source": "file"}, "source=file needs one"),
        ({"path": "my.txt"}, "a path belongs with source=file"),
        ({"vocabulary": 1}, "vocabulary: got 1"),
    ],
)
def test_a_text_task_that_contradicts_itself_is_refused(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        CharacterTask(**arguments)


def test_fresh_data_have_no_epochs():
    experiment = get("quick/copy")
    with pytest.raises(
        ConfigurationError, match="epochs=3: fresh data have no epochs: give updates"
    ):
        replace(experiment, updates=None, epochs=3)
    with pytest.raises(ConfigurationError, match="evaluate_every=None: fresh data have no epochs"):
        replace(experiment, evaluate_every=None)


def test_an_aim_is_a_score_of_the_task():
    with pytest.raises(ConfigurationError, match=r"aim\.metric: got 'perplexity'.*has accuracy"):
        replace(get("psmnist/gru-128"), aim=Aim("perplexity", 2.0))
