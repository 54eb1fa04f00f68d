"""Networks of experiments: every preset builds, counts and runs; states carry; readouts differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_runs import DIGITS, HIGHWAY, SENTENCES, STREAM

import passnet
from passnet.config import LowRank, Model, model_parameter_count
from passnet.experiments import get, names
from passnet.training import build_model, build_task
from passnet.training.problem import build_task as build

SIZE, INPUTS, OUTPUTS = 12, 5, 7


def shrunk(model: Model) -> Model:
    matrix = replace(model.matrix, rank=4) if hasattr(model.matrix, "rank") else model.matrix
    return replace(model, size=SIZE, matrix=matrix)


MODELS = {shrunk(get(name).model): name for name in reversed(names())}


@pytest.mark.parametrize("model", MODELS, ids=MODELS.values())
def test_every_preset_builds_with_the_parameters_it_promises(model):
    readout = "flat" if model.cell == "highway" else "steps"
    network = build_model(model, INPUTS, outputs=OUTPUTS, readout=readout, seed=0)
    assert passnet.count_parameters(network) == model_parameter_count(model, INPUTS, OUTPUTS)
    inputs = torch.rand(6, INPUTS) if readout == "flat" else torch.randint(INPUTS, (4, 3))
    outputs, _ = network(inputs)
    assert outputs.shape == ((6, OUTPUTS) if readout == "flat" else (4, 3, OUTPUTS))
    assert isinstance(network.backend(inputs), str)


def test_a_hidden_layer_before_the_output():
    for model in (Model(size=SIZE, head_hidden=4), replace(HIGHWAY.model, head_hidden=4)):
        readout = "flat" if model.cell == "highway" else "last"
        network = build_model(model, INPUTS, outputs=OUTPUTS, readout=readout, seed=0)
        assert network.hidden.out_features == 4
        assert passnet.count_parameters(network) == model_parameter_count(model, INPUTS, OUTPUTS)


def test_the_seed_alone_decides_the_start():
    def weights(seed):
        torch.randn(3)
        network = build_model(DIGITS.model, 1, outputs=10, readout="last", seed=seed)
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    assert torch.equal(weights(4), weights(4))
    assert not torch.equal(weights(4), weights(5))


def test_the_last_readout_is_the_last_of_every_step():
    inputs = torch.rand(6, 3, INPUTS)
    model = Model(size=SIZE, matrix=LowRank(3))
    every = build_model(model, INPUTS, outputs=2, readout="steps", seed=1)(inputs)[0]
    last = build_model(model, INPUTS, outputs=2, readout="last", seed=1)(inputs)[0]
    torch.testing.assert_close(last, every[-1])
    lengths = torch.tensor([6, 2, 4])
    masked = build_model(model, INPUTS, outputs=2, readout="last", seed=1)(inputs, None, lengths)
    expected = torch.stack([every[length - 1, lane] for lane, length in enumerate(lengths)])
    torch.testing.assert_close(masked[0], expected)


@pytest.mark.parametrize("cell", ["gru", "lstm", "urnn"])
def test_a_carried_state_goes_on_where_the_window_ended(cell):
    model = Model(size=SIZE, cell=cell)
    network = build_model(model, INPUTS, outputs=2, readout="steps", seed=1).double()
    symbols = torch.randint(INPUTS, (8, 3))
    whole, end = network(symbols)
    first, state = network(symbols[:5])
    second, final = network(symbols[5:], tuple(part.detach() for part in state))
    torch.testing.assert_close(torch.cat((first, second)), whole, rtol=1e-12, atol=1e-14)
    for part, expected in zip(final, end, strict=True):
        torch.testing.assert_close(part, expected, rtol=1e-12, atol=1e-14)
        assert part.shape[1] == 3
        assert not part.is_complex()


@pytest.mark.parametrize(
    ("experiment", "random"),
    [(DIGITS, False), (HIGHWAY, True), (STREAM, True), (SENTENCES, True)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_network_knows_whether_it_draws(experiment, random):
    readout = "flat" if experiment is HIGHWAY else "steps"
    network = build_model(experiment.model, 5, outputs=5, readout=readout, seed=0)
    assert network.random is random


def test_the_transform_gates_of_a_highway_start_at_minus_the_carry_bias():
    network = build_model(HIGHWAY.model, 49, outputs=10, readout="flat", seed=0)
    assert torch.equal(network.highway.cells[0].bias[1].detach(), torch.full((16,), -1.0))


def test_tasks_take_their_fields_from_the_experiment():
    task = build_task(replace(SENTENCES.task, longest=40, average="character"))
    assert task.record()["longest"] == 40
    assert task.record()["average"] == "character"
    assert build_task is build
    assert build_task(STREAM.task).window == 6
    assert build_task(DIGITS.task).record()["permutation"] == "common"
    flat = build_task(replace(HIGHWAY.task, l2=0.5, l2_of="norm"))
    assert flat.penalty(torch.full((2, 2), 3.0)).item() == pytest.approx(3.0)


def test_a_urnn_says_which_backend_runs_it():
    words = {"outputs": 2, "readout": "steps", "seed": 1}
    model, symbols = Model(size=SIZE, cell="urnn"), torch.randint(INPUTS, (4, 3))
    assert build_model(model, INPUTS, **words).backend(symbols) == "reference"
    with pytest.raises(
        passnet.BackendRefused, match="backend='eager' is unknown: choose one of 'auto'"
    ):
        build_model(model, INPUTS, **words, backend="eager")


@pytest.mark.parametrize("unk", ["spelled", "symbol"])
def test_the_alphabet_of_the_embedded_text_is_known_unread(unk):
    task = replace(STREAM.task, unk=unk)
    built = build_task(task)
    assert (task.inputs, task.outputs) == (built.input_size, built.output_size)
