"""The closed-form counts against the layers themselves, every preset shrunk to a small state."""

from __future__ import annotations

from dataclasses import replace

import pytest

import passnet
from passnet.config import Model, model_parameter_count
from passnet.experiments import get, names

SIZE, INPUTS, OUTPUTS = 12, 5, 7


def shrunk(model: Model) -> Model:
    rank = {"rank": 4} if hasattr(model.matrix, "rank") else {}
    return replace(model, size=SIZE, matrix=replace(model.matrix, **rank))


def body(model: Model):
    if model.cell == "urnn":
        return passnet.UnitaryRNN(INPUTS, SIZE)
    if model.cell == "highway":
        return passnet.Highway(
            SIZE, model.num_layers, matrix=model.matrix, batch_norm=model.batch_norm
        )
    shared = {
        "matrix": model.matrix,
        "learn_initial_state": model.learn_initial_state,
        "weight_norm": model.weight_norm,
        "init": model.init,
    }
    if model.cell == "lstm":
        return passnet.LSTM(INPUTS, SIZE, model.num_layers, **shared)
    return passnet.GRU(
        INPUTS,
        SIZE,
        model.num_layers,
        reset=model.reset,
        recurrent_bias=model.recurrent_bias,
        **shared,
    )


MODELS = {shrunk(get(name).model): name for name in reversed(names())}
EXTRA = {
    Model(size=SIZE, recurrent_bias=True): "recurrent bias",
    Model(size=SIZE, num_layers=3, learn_initial_state=True): "three layers",
    Model(size=SIZE, cell="lstm", num_layers=2, learn_initial_state=True): "two LSTM layers",
    Model(
        size=SIZE, matrix=passnet.BlockDiagonalPlusLowRank(3, 2), weight_norm=True
    ): "blocks, normalised",
    Model(size=SIZE, matrix=passnet.BlockDiagonal(4), weight_norm=True): "blocks alone",
}


@pytest.mark.parametrize("model", [*MODELS, *EXTRA], ids=[*MODELS.values(), *EXTRA.values()])
def test_count(model):
    features = 2 * SIZE if model.cell == "urnn" else SIZE
    head = features * OUTPUTS + OUTPUTS
    entry = INPUTS * SIZE + (2 if model.batch_norm else 1) * SIZE if model.cell == "highway" else 0
    expected = passnet.count_parameters(body(model)) + head + entry
    assert model_parameter_count(model, INPUTS, OUTPUTS) == expected
