"""Finished and unfinished runs are read again: scores, text, several seeds, events, TensorBoard."""

from __future__ import annotations

import io
import json
import math
import re
import signal
import sys
from dataclasses import replace

import pytest
import torch
from tiny_runs import ADDITION, COPY, DIGITS, SENTENCES, STREAM, outcome

from passnet.ops import BackendRefused
from passnet.tasks.data import DataError
from passnet.training import (
    Evaluated,
    Finished,
    Interrupted,
    RunError,
    Saved,
    Started,
    Updated,
    Warned,
    describe,
    evaluate,
    load_run,
    plain_lines,
    sample_text,
    stream_text,
    train,
    train_together,
)
from passnet.training.machine import device_name
from passnet.training.update import Meters


@pytest.mark.parametrize("experiment", [COPY, ADDITION, STREAM], ids=lambda e: e.name)
def test_evaluating_a_run_gives_its_result_again(experiment, tmp_path):
    result = train(experiment, tmp_path, device="cpu")
    assert evaluate(tmp_path, device="cpu") == result.test
    valid = evaluate(tmp_path, split="valid", device="cpu")
    assert valid == result.validation


def test_digits_that_were_trained_on_give_no_validation_score(tmp_path):
    everything = replace(
        DIGITS,
        task=replace(DIGITS.task, hold_out=False),
        selection=replace(DIGITS.selection, keep="last"),
    )
    told = []
    result = train(everything, tmp_path, device="cpu", listener=told.append)
    assert result.updates == 8 * (60 + 40) // 20
    assert result.validation == {} and result.selected_update == result.updates
    assert {line["kind"] for line in load_run(tmp_path).metrics()} == {"train", "seen", "test"}
    scored = [event for event in told if isinstance(event, Evaluated)]
    assert {event.split for event in scored} == {"seen", "test"}
    assert not any(event.better for event in scored)
    assert evaluate(tmp_path, device="cpu") == result.test
    with pytest.raises(
        RunError, match=r"trained on its validation data .*evaluate the split 'test'"
    ):
        evaluate(tmp_path, split="valid", device="cpu")


@pytest.mark.parametrize("experiment", [COPY, ADDITION], ids=lambda e: e.name)
def test_an_unfinished_run_can_be_evaluated(experiment, tmp_path):
    def stop(event):
        if isinstance(event, Saved) and event.update == 20:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        train(experiment, tmp_path, device="cpu", listener=stop, checkpoint_every=20)
    run = load_run(tmp_path)
    assert run.result is None
    scores = evaluate(tmp_path, split="valid", device="cpu")
    lines = [line for line in run.metrics() if line["kind"] == "valid"]
    if experiment.selection.keep == "best":
        metric = experiment.selection.metric
        assert scores[metric] == min(line[metric] for line in lines)


def test_what_is_not_a_run_is_a_sentence(tmp_path):
    with pytest.raises(RunError, match="is this the folder of a run"):
        load_run(tmp_path / "nothing")
    (tmp_path / "experiment.json").write_text('{"format": "other"}')
    with pytest.raises(RunError, match="is not of a passnet run"):
        load_run(tmp_path)


def test_a_result_with_something_missing_is_a_sentence(tmp_path):
    train(COPY, tmp_path, device="cpu")
    (tmp_path / "result.json").write_text('{"preset": "quick/copy"}')
    with pytest.raises(RunError, match=r"result\.json is damaged: it has no 'seed'; restore it"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "mend"),
    [("experiment.json", "train in another folder"), ("result.json", "train the folder again")],
)
def test_a_damaged_file_says_how_to_mend_it(tmp_path, name, mend):
    train(COPY, tmp_path, device="cpu")
    before = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(before[:-9])
    with pytest.raises(RunError, match=rf"{name} is damaged: it is not JSON .*restore it.*{mend}"):
        load_run(tmp_path)
    if name == "result.json":
        (tmp_path / name).unlink()
        assert train(COPY, tmp_path, device="cpu").value == json.loads(before)["value"]


@pytest.mark.parametrize(
    "option",
    [
        {"minutes": -1},
        {"minutes": "9"},
        {"minutes": math.inf},
        {"checkpoint_every": 0},
        {"checkpoint_every": 1.5},
        {"checkpoint_seconds": "often"},
        {"checkpoint_seconds": -1.0},
        {"minutes": 0},
    ],
    ids=str,
)
def test_options_that_no_run_can_have(tmp_path, option):
    ((name, value),) = option.items()
    for begin in (train, lambda e, f, **o: train_together([e], [f], **o)):
        with pytest.raises(ValueError, match=rf"{name}={re.escape(repr(value))}: give a number"):
            begin(COPY, tmp_path / "run", device="cpu", **option)
    assert not (tmp_path / "run").exists()


def test_a_name_is_no_experiment(tmp_path):
    with pytest.raises(TypeError, match=r"'quick/copy': give an Experiment.*experiments\.get"):
        train("quick/copy", tmp_path / "run")


def test_splits_that_are_scored(tmp_path):
    train(COPY, tmp_path, device="cpu")
    with pytest.raises(ValueError, match="split='train': choose 'valid' or 'test'"):
        evaluate(tmp_path, split="train")


def test_damaged_weights_are_noticed(tmp_path):
    train(ADDITION, tmp_path, device="cpu")
    content = bytearray((tmp_path / "weights.safetensors").read_bytes())
    content[-3] ^= 4
    (tmp_path / "weights.safetensors").write_bytes(content)
    with pytest.raises(RunError, match="SHA-256"):
        evaluate(tmp_path, device="cpu")


@pytest.fixture(scope="module", params=[STREAM, SENTENCES], ids=lambda e: e.name)
def writer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("writer") / "run"
    train(request.param, folder, device="cpu")
    return folder


def test_text_depends_on_the_seed_alone(writer):
    text = sample_text(writer, "the ", length=60, seed=1, device="cpu")
    assert len(text) == 60
    assert text == "".join(stream_text(writer, "the ", length=60, seed=1, device="cpu"))
    assert text != sample_text(writer, "the ", length=60, seed=2, device="cpu")
    known = load_run(writer).facts["data"]["vocabulary"]
    assert set(text) <= {*known, "\n"}


def test_temperature_zero_takes_the_likeliest(writer):
    one = sample_text(writer, "a", length=30, temperature=0, seed=1, device="cpu")
    assert one == sample_text(writer, "a", length=30, temperature=0, seed=2, device="cpu")
    with pytest.raises(ValueError, match="temperature"):
        sample_text(writer, temperature=-1.0, device="cpu")
    with pytest.raises(ValueError, match="length=-5: expected at least 0"):
        sample_text(writer, length=-5, device="cpu")


def test_an_unknown_character_in_the_prompt_is_named(writer):
    with pytest.raises(RunError, match="never seen '%', '5'"):
        sample_text(writer, "the 5 %", device="cpu")
    with pytest.raises(RunError, match="never seen"):
        stream_text(writer, "5", device="cpu")  # before the first character is asked for


def test_streaming_one_character_at_a_time_is_reading_the_whole(writer):
    run = load_run(writer)
    size = len(run.facts["data"]["vocabulary"]) + 2
    network = run.network(inputs=size, outputs=size, readout="steps").double()
    symbols = torch.randint(2, size, (9, 1))
    whole, _ = network(symbols)
    state, steps = None, []
    for symbol in symbols:
        output, state = network(symbol.unsqueeze(0), state)
        steps.append(output[0])
    torch.testing.assert_close(torch.stack(steps), whole, rtol=1e-12, atol=1e-14)


def test_a_model_of_sentences_forgets_at_line_ends(tmp_path):
    train(SENTENCES, tmp_path, device="cpu")
    ends = {"device": "cpu", "length": 30, "seed": 3}
    assert sample_text(tmp_path, "one line\n", **ends) == sample_text(tmp_path, "", **ends)


def test_only_character_models_write(tmp_path):
    train(ADDITION, tmp_path, device="cpu")
    with pytest.raises(RunError, match="only a character model writes text"):
        sample_text(tmp_path, device="cpu")


def test_seeds_together_are_the_runs_they_would_be_alone(tmp_path):
    experiments = [replace(COPY, seed=seed) for seed in range(3)]
    events = [[], [], []]
    results = train_together(
        experiments,
        [tmp_path / str(seed) for seed in range(3)],
        device="cpu",
        listeners=[own.append for own in events],
    )
    for seed, experiment in enumerate(experiments):
        train(experiment, tmp_path / f"alone-{seed}", device="cpu")
        assert outcome(tmp_path / str(seed)) == outcome(tmp_path / f"alone-{seed}")
        assert results[seed].seed == seed
        assert isinstance(events[seed][-1], Finished)
    assert len({result.value for result in results}) == 3


def test_one_failing_run_leaves_the_others_alone(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "foreign").write_text("")
    results = train_together([ADDITION, DIGITS], [tmp_path / "a", tmp_path / "b"], device="cpu")
    assert isinstance(results[0], RunError)
    assert results[1].preset == "tiny/digits"


def test_a_signal_stops_all_of_them(tmp_path):
    def stop(event):
        if isinstance(event, Saved) and event.update == 3:
            signal.raise_signal(signal.SIGTERM)

    folders = [tmp_path / "a", tmp_path / "b"]
    both = [ADDITION, DIGITS]
    results = train_together(both, folders, device="cpu", listener=stop, checkpoint_every=3)
    assert all(isinstance(result, Interrupted) for result in results)
    results = train_together(both, folders, device="cpu")
    assert [result.preset for result in results] == ["tiny/addition", "tiny/digits"]


def test_runs_together_need_folders_of_their_own(tmp_path):
    with pytest.raises(ValueError, match="same folder"):
        train_together([ADDITION, DIGITS], [tmp_path, tmp_path], device="cpu")
    with pytest.raises(ValueError, match="2 experiments and 1 folders"):
        train_together([ADDITION, DIGITS], [tmp_path], device="cpu")


def test_plain_lines_tell_the_story(tmp_path):
    out = io.StringIO()
    train(COPY, tmp_path, device="cpu", listener=plain_lines(out))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("tiny/copy starts: 30 updates")
    assert "captured" not in lines[0] and "backend, seed" in lines[0]
    assert any("7 valid: cross_entropy_nats" in line for line in lines)
    assert lines[-1].startswith("tiny/copy finished: test cross_entropy_nats")
    assert "chance" in lines[-1]


def test_every_event_has_its_line():
    updated = Updated("r", 5, 10, 0.5, 1.25, 1e-3, 20.0, 0.25)
    assert describe(updated) == "r 5/10 loss 1.25 rate 0.001 20.0 updates/s 0 s left"
    assert describe(Warned("r", "beware")) == "r warning: beware"
    assert describe(Saved("r", 5)) is None
    better = Evaluated("r", 5, "valid", {"accuracy": 0.5}, "accuracy", True)
    assert describe(better) == "r 5 valid: accuracy 0.5 (best)"
    started = Started("r", 0, 5, 10, 3, "cpu", "eager", None, "accuracy", {}, None)
    assert "resumes after update 5" in describe(started)
    assert "one CUDA graph" in describe(started)
    alone = replace(started, device="cuda:0 (a GPU)", capture="not captured: switched off")
    assert "eager backend (not captured: switched off), seed" in describe(alone)
    assert "captured" not in describe(replace(alone, device="cpu (2 threads)"))


def test_one_thread_is_not_threads(monkeypatch):
    for count, words in ((1, "cpu (1 thread)"), (2, "cpu (2 threads)")):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=count: count)
        assert device_name(torch.device("cpu")) == words


def test_updates_are_told_with_their_speed(tmp_path, monkeypatch):
    monkeypatch.setattr("passnet.training.recorder.TOLD_EVERY", 0.0)
    events = []
    train(ADDITION, tmp_path, device="cpu", listener=events.append)
    told = [event for event in events if isinstance(event, Updated)]
    assert [event.update for event in told] == list(range(1, 25))
    assert all(event.updates_per_second > 0 for event in told)
    assert told[0].seconds_left > 0
    assert told[-1].seconds_left == 0
    lines = [line for line in load_run(tmp_path).metrics() if line["kind"] == "train"]
    assert [event.loss for event in told] == [line["loss"] for line in lines]
    assert {event.learning_rate for event in told} == {5e-3}


def test_the_loss_is_read_once_for_each_line(tmp_path, monkeypatch):
    monkeypatch.setattr("passnet.training.recorder.TOLD_EVERY", 0.0)
    made, read, item = [], [], torch.Tensor.item
    start = Meters.__init__

    def kept(self, device):
        start(self, device)
        made.append(self)

    monkeypatch.setattr(Meters, "__init__", kept)
    monkeypatch.setattr(torch.Tensor, "item", lambda self: (read.append(self), item(self))[1])
    train(ADDITION, tmp_path, device="cpu")
    assert sum(tensor is made[0].tensors["loss"] for tensor in read) == 24


def test_missing_tensorboard_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(RunError, match=r"pip install '\.\[tensorboard\]'"):
        train(ADDITION, tmp_path, device="cpu", tensorboard=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_backend_that_refuses_does_so_before_a_run_begins(tmp_path, precision):
    events, experiment = [], replace(COPY, precision=precision)
    options = {"device": "cpu", "listener": events.append}
    wanted = "cuda" if precision == "float32" else "cpu"
    with pytest.raises(BackendRefused, match=f"backend '{wanted}' cannot run this call: the"):
        train(experiment, tmp_path, backend=wanted, **options)
    assert events == [] and list(tmp_path.iterdir()) == []
    other = replace(experiment, batch_size=4, updates=2)
    assert train(other, tmp_path, backend="eager", **options).backend == "eager"


@pytest.mark.parametrize("text", [None, "ab"])
def test_a_text_that_refuses_does_so_before_a_run_begins(tmp_path, text):
    path = tmp_path / "short.txt"
    if text is not None:
        path.write_text(text)
    task = replace(STREAM.task, source="file", path=str(path), vocabulary=None)
    with pytest.raises(DataError):
        train(replace(STREAM, task=task), tmp_path / "runs" / "run", device="cpu")
    assert not (tmp_path / "runs").exists()


def test_tensorboard_receives_what_the_metrics_file_does(tmp_path, monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder, purge_step):
            written.append((folder, purge_step))

        def add_scalar(self, name, value, update):
            written.append((name, value, update))

        def close(self):
            written.append("closed")

    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    train(ADDITION, tmp_path, device="cpu", tensorboard=True)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert written[0] == (str(tmp_path / "tensorboard"), 1)
    assert written[-1] == "closed"
    first = lines[0]
    assert ("train/loss", first["loss"], 1) in written
    tests = [entry for entry in written if entry[0] == "test/mse_paper_distribution"]
    assert len(tests) == 1
