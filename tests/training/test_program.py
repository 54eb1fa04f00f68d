"""What a run has learned, exported and read by ONNX Runtime, beside its network."""

from __future__ import annotations

import json
from dataclasses import replace

import onnx
import onnxruntime
import pytest
import torch
from tiny_runs import ADDITION, COPY, DIGITS, HIGHWAY, SENTENCES, STREAM, URNN
from torch.testing import assert_close

from passnet.cli import main
from passnet.training import build_task, load_run, train


def export(folder, place):
    assert main(["export", str(folder), "--out", str(place)]) == 0
    return onnxruntime.InferenceSession(place, providers=["CPUExecutionProvider"])


TASK = replace(COPY.task, form="variable_length")
WITH_LENGTHS = replace(COPY, name="tiny/copy-variable-length", task=TASK)


@pytest.mark.parametrize(
    "experiment", [COPY, WITH_LENGTHS, ADDITION, DIGITS, HIGHWAY], ids=lambda e: e.name
)
def test_a_run_answers_as_its_network_does(experiment, tmp_path):
    folder, place = tmp_path / "run", tmp_path / "model.onnx"
    train(experiment, folder, device="cpu")
    session = export(folder, place)
    task = build_task(experiment.task)
    batch = task.batch("test", 1, batch_size=7)
    fed = {"inputs": batch.inputs.numpy()}
    if batch.lengths is not None:
        fed["lengths"] = batch.lengths.numpy()
    network = load_run(folder).network(
        inputs=task.input_size, outputs=task.output_size, readout=task.readout
    )
    with torch.no_grad():
        wanted = network(batch.inputs, lengths=batch.lengths)[0]
    (found,) = session.run(["outputs"], fed)
    assert_close(torch.from_numpy(found), wanted)


@pytest.mark.parametrize("experiment", [STREAM, SENTENCES], ids=["stream", "sentences"])
def test_a_character_model_reads_a_text_in_pieces(experiment, tmp_path):
    folder, place = tmp_path / "run", tmp_path / "model.onnx"
    train(experiment, folder, device="cpu")
    session = export(folder, place)
    facts = {fact.key: fact.value for fact in onnx.load(place).metadata_props}
    symbols = json.loads(facts["symbols"])
    assert facts["experiment"] == experiment.name and "e" in symbols and len(symbols) > 20
    text = torch.arange(22).reshape(11, 2) % len(symbols)
    states = [value.name for value in session.get_inputs()[1:]]
    fed = {name: torch.zeros(1, 2, 10).numpy() for name in states}
    pieces = []
    for piece in text.split([1, 4, 6]):
        output, *following = session.run(None, {"inputs": piece.numpy(), **fed})
        pieces.append(torch.from_numpy(output))
        fed = dict(zip(states, following, strict=True))
    network = load_run(folder).network(inputs=len(symbols), outputs=len(symbols), readout="steps")
    with torch.no_grad():
        assert_close(torch.cat(pieces), network(text)[0])


def test_what_it_takes_and_returns_is_shown(tmp_path, capsys):
    folder, place = tmp_path / "run", tmp_path / "model.onnx"
    train(STREAM, folder, device="cpu")
    export(folder, place)
    shown = capsys.readouterr().out
    assert "next_cell" in shown and f"{place.stat().st_size:,} bytes" in shown
    assert main(["export", str(folder), "--out", str(place), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == str(place)
    assert found["inputs"]["hidden"] == [1, "batch", 10]
    assert list(found["outputs"]) == ["outputs", "next_hidden", "next_cell"]


@pytest.mark.parametrize(
    ("experiment", "sentence"),
    [
        (URNN, "the state of a UnitaryRNN is complex"),
        (
            replace(STREAM, model=replace(STREAM.model, learn_initial_state=True)),
            "has a learned initial state",
        ),
    ],
    ids=["urnn", "learned state"],
)
def test_runs_that_cannot_be_programs(experiment, sentence, tmp_path, capsys):
    train(experiment, tmp_path / "run", device="cpu")
    capsys.readouterr()
    place = tmp_path / "model.onnx"
    assert main(["export", str(tmp_path / "run"), "--out", str(place)]) == 2
    assert sentence in capsys.readouterr().err
    assert not place.exists()


def test_wrong_places_are_refused(tmp_path, capsys):
    assert main(["export", str(tmp_path / "none"), "--out", "model.onnx"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    train(URNN, tmp_path / "run", device="cpu")
    nowhere = str(tmp_path / "nowhere" / "model.onnx")
    assert main(["export", str(tmp_path / "run"), "--out", nowhere]) == 2
    assert "create it, or give a file in an existing one" in capsys.readouterr().err
