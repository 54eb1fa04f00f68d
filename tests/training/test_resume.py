"""A run that is killed, asked to stop or damaged ends as if nothing had happened, or says why."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from dying import FORKS, die_at_file_operation
from tiny_runs import ADDITION, BY_NAME, COPY, DIGITS, HIGHWAY, STREAM, TINY, outcome

from passnet.config import Experiment
from passnet.training import (
    CheckpointError,
    Evaluated,
    Interrupted,
    Refused,
    RunError,
    Saved,
    Started,
    Warned,
    assembly,
    evaluate,
    keeper,
    load_run,
    sample_text,
    session,
    train,
)
from passnet.training.checkpoint import load_newest, save_checkpoint


@pytest.fixture(scope="module", autouse=True)
def _several_updates_a_line():
    """Sums over updates are then saved half-way, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "LINES", 6)
        yield


def carry_out(name: str, folder: str, *, every: int, die_at: int | None = None) -> None:
    """Train in this process, which a signal from within ends at the `die_at`-th file operation."""
    torch.set_num_threads(1)
    if die_at is not None:
        die_at_file_operation(die_at)
    train(BY_NAME[name], folder, device="cpu", checkpoint_every=every)


def child(name, folder, **options):
    if torch.cuda.is_initialized():
        pytest.skip(
            "a process that has started CUDA cannot be forked: run these tests by themselves"
        )
    process = FORKS.Process(target=carry_out, args=(name, str(folder)), kwargs=options)
    process.start()
    return process


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The outcome of each tiny experiment, trained once and without a checkpoint on the way."""
    known = {}

    def get(name):
        if name not in known:
            folder = tmp_path_factory.mktemp("whole") / "run"
            train(BY_NAME[name], folder, device="cpu", checkpoint_seconds=None)
            known[name] = outcome(folder)
        return known[name]

    return get


@pytest.mark.parametrize("name", [experiment.name for experiment in TINY])
def test_killed_at_random_moments(name, tmp_path, uninterrupted):
    whole = uninterrupted(name)
    seed = random.randrange(10**6)
    draw, kills = random.Random(seed), 0
    folder = tmp_path / "run"
    for _ in range(60):
        process = child(name, folder, every=draw.choice([1, 2, 3]))
        process.join(draw.uniform(0.005, 0.06) * 1.1**kills)
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        if process.exitcode == 0 and kills >= 2:
            break
        if process.exitcode == 0:  # on a busy machine it may end before it is killed: once more
            shutil.rmtree(folder)
            kills = 0
    assert kills >= 2, "no run was long enough to be killed in its middle"
    assert outcome(folder) == whole, f"seed {seed} with {kills} kills"


def test_killed_at_every_file_operation(tmp_path, uninterrupted):
    whole = uninterrupted(ADDITION.name)
    folder, deaths = tmp_path / "run", 0
    for die_at in itertools.count(1):
        # Each child dies one operation later than the one before, counted from its own start.
        process = child(ADDITION.name, folder, every=6, die_at=die_at)
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        deaths += 1
    assert deaths > 10
    assert outcome(folder) == whole


def listening():
    events = []
    return events, events.append


@pytest.mark.parametrize("experiment", TINY, ids=lambda experiment: experiment.name)
def test_a_signal_saves_and_says_how_to_go_on(experiment, tmp_path, uninterrupted):
    events = []

    def stop_once(event):
        events.append(event)
        if isinstance(event, Saved) and event.update == 5:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted, match=r"stopped by SIGTERM after update 6.*same command"):
        train(experiment, tmp_path, device="cpu", listener=stop_once, checkpoint_every=5)
    assert not (tmp_path / "result.json").exists()
    train(experiment, tmp_path, device="cpu", listener=events.append)
    assert [event.update for event in events if isinstance(event, Started)] == [0, 6]
    assert outcome(tmp_path) == uninterrupted(experiment.name)


def test_ctrl_c_within_an_evaluation_leaves_the_training_parameters_alone(
    tmp_path, uninterrupted, monkeypatch
):
    # The evaluated parameters are the averaged ones here: they must not be saved as the others.
    from passnet.tasks.copy import Copy

    real, calls = Copy.totals, iter(range(10**6))

    def totals(self, outputs, batch):
        if next(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return real(self, outputs, batch)

    experiment = replace(COPY, task=replace(COPY.task))
    monkeypatch.setattr(Copy, "totals", totals)
    monkeypatch.setattr("passnet.training.assembly.scoring_batch_size", lambda *_: 10)
    with pytest.raises(Interrupted, match="SIGINT after update 14"):
        train(experiment, tmp_path / "a", device="cpu")
    train(experiment, tmp_path / "a", device="cpu")
    train(experiment, tmp_path / "b", device="cpu")
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")


def test_a_second_signal_acts_as_ever(tmp_path):
    def insist(event):
        if isinstance(event, Started):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    # A shell's background job may have been told to ignore Ctrl-C.
    ever = signal.default_int_handler
    before = signal.signal(signal.SIGINT, ever)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(ADDITION, tmp_path, device="cpu", listener=insist)
        assert signal.getsignal(signal.SIGINT) is ever
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="terminals hang up on POSIX only")
@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_saves_unless_nohup_has_it_ignored(tmp_path, uninterrupted, ignored):
    def hang_up(event):
        if isinstance(event, Saved) and event.update == 5:
            # The kernel says it and the shell says it again.
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGHUP)

    ever = signal.SIG_IGN if ignored else signal.SIG_DFL
    before = signal.signal(signal.SIGHUP, ever)
    stopped = pytest.raises(Interrupted, match="stopped by SIGHUP after update 6")
    try:
        with contextlib.nullcontext() if ignored else stopped:
            train(ADDITION, tmp_path, device="cpu", listener=hang_up, checkpoint_every=5)
        assert signal.getsignal(signal.SIGHUP) is ever
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (tmp_path / "result.json").exists() == ignored
    train(ADDITION, tmp_path, device="cpu")
    assert outcome(tmp_path) == uninterrupted(ADDITION.name)


def test_a_folder_moved_meanwhile_is_not_begun_anew_in_its_old_place(tmp_path, uninterrupted):
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def move(event):
        if isinstance(event, Saved) and event.update == 5:
            folder.rename(elsewhere)

    with pytest.raises(RunError, match=r"metrics\.jsonl is gone: if the folder was moved"):
        train(ADDITION, folder, device="cpu", listener=move, checkpoint_every=5)
    assert not folder.exists()
    train(ADDITION, elsewhere, device="cpu")
    assert outcome(elsewhere) == uninterrupted(ADDITION.name)


def interrupted_run(experiment, folder, *, after, every=5):
    def stop(event):
        if isinstance(event, Saved) and event.update == after:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        train(experiment, folder, device="cpu", listener=stop, checkpoint_every=every)


def newest_data(folder: Path) -> Path:
    return sorted((folder / "checkpoints").glob("*.safetensors"))[-1]


def test_a_damaged_checkpoint_costs_only_time(tmp_path, uninterrupted):
    interrupted_run(STREAM, tmp_path, after=20)
    content = bytearray(newest_data(tmp_path).read_bytes())
    content[len(content) // 2] ^= 1
    newest_data(tmp_path).write_bytes(content)
    events, listener = listening()
    train(STREAM, tmp_path, device="cpu", listener=listener)
    warnings = [event.text for event in events if isinstance(event, Warned)]
    assert any("SHA-256" in text and "falling back to update 20" in text for text in warnings)
    assert outcome(tmp_path) == uninterrupted(STREAM.name)


def test_when_every_checkpoint_is_damaged_the_run_refuses_to_begin_anew(tmp_path):
    interrupted_run(STREAM, tmp_path, after=20)
    for path in (tmp_path / "checkpoints").glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:100])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match="no checkpoint"):
        train(STREAM, tmp_path, device="cpu")
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("full_for", ["metrics.jsonl", "checkpoints"])
def test_a_full_disk_stops_the_run_and_loses_nothing(full_for, tmp_path, uninterrupted):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up(event):
        if isinstance(event, Saved) and event.update == 6:
            metrics = (tmp_path / "metrics.jsonl").stat().st_size
            data = newest_data(tmp_path).stat().st_size
            assert metrics + 400 < data
            room = metrics + 20 if full_for == "metrics.jsonl" else data - 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))

    try:
        with pytest.raises(RunError, match=rf"could not .*{full_for}.* make room and run the same"):
            train(ADDITION, tmp_path, device="cpu", listener=fill_up, checkpoint_every=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    train(ADDITION, tmp_path, device="cpu")
    assert outcome(tmp_path) == uninterrupted(ADDITION.name)


def test_a_changed_experiment_is_refused_by_name(tmp_path):
    interrupted_run(COPY, tmp_path, after=5)
    changed = replace(COPY, batch_size=16, seed=3)
    with pytest.raises(RunError, match=r"batch_size was 8 and is 16; seed was 0 and is 3"):
        train(changed, tmp_path, device="cpu")


def of_a_text(text: Path) -> Experiment:
    text.write_text("".join(f"line {k} of a text\n" for k in range(900)))
    return replace(STREAM, task=replace(STREAM.task, source="file", path=str(text)))


OTHER_DATA = r"the data are not those the run .* began with \(.*text_sha256.* changed\)"


def test_changed_data_are_refused(tmp_path):
    text, run = tmp_path / "text.txt", tmp_path / "run"
    experiment = of_a_text(text)
    interrupted_run(experiment, run, after=5)
    text.write_text(text.read_text() + "Z")
    with pytest.raises(RunError, match=OTHER_DATA):
        train(experiment, run, device="cpu")


def test_changed_data_of_a_complete_run_are_refused(tmp_path, monkeypatch):
    text, run = tmp_path / "text.txt", tmp_path / "run"
    experiment = of_a_text(text)
    result = train(experiment, run, device="cpu")
    # Complete, it is neither prepared for training nor in need of its text.
    monkeypatch.setattr(session, "assemble", None)
    assert train(experiment, run, device="cpu") == result
    exchanged = text.read_text().translate(str.maketrans("ei", "ie"))
    for changed in (exchanged, text.read_text().upper()):
        text.write_text(changed)
        with pytest.raises(RunError, match=OTHER_DATA):
            train(experiment, run, device="cpu")
        with pytest.raises(RunError, match=OTHER_DATA):
            evaluate(run, device="cpu")
    assert len(sample_text(run, "line", length=9, device="cpu")) == 9
    text.unlink()
    assert train(experiment, run, device="cpu") == result


def test_a_run_of_a_version_that_recorded_less_goes_on(tmp_path):
    interrupted_run(DIGITS, tmp_path, after=5)
    file = tmp_path / "experiment.json"
    record = json.loads(file.read_text())
    del record["data"]["mixup"], record["experiment"]["task"]["mixup"]
    file.write_text(json.dumps(record))
    assert train(DIGITS, tmp_path, device="cpu").updates == 24


def test_a_complete_run_is_returned_at_once(tmp_path):
    first = train(ADDITION, tmp_path, device="cpu")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json*")}
    assert train(ADDITION, tmp_path, device="cpu") == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json*")} == before


def test_a_folder_that_holds_a_run_can_be_refused(tmp_path):
    train(ADDITION, tmp_path, device="cpu", resume=False)
    with pytest.raises(RunError, match="already holds a run"):
        train(ADDITION, tmp_path, device="cpu", resume=False)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("do not touch")
    with pytest.raises(RunError, match=r"holds thesis.tex and no experiment.json"):
        train(ADDITION, tmp_path, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(Refused, match=r"cannot make the folder .*thesis.tex"):
        train(ADDITION, tmp_path / "thesis.tex", device="cpu")


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(Refused, match="nothing can be written in"):
        train(ADDITION, tmp_path, device="cpu")


def test_two_processes_do_not_share_a_folder(tmp_path):
    def second(event):
        if isinstance(event, Started):
            with pytest.raises(RunError, match="another process trains"):
                train(ADDITION, tmp_path, device="cpu")

    train(ADDITION, tmp_path, device="cpu", listener=second)


def test_metrics_that_were_cut_off_are_noticed(tmp_path):
    interrupted_run(COPY, tmp_path, after=15)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(RunError, match=r"metrics.jsonl is shorter"):
        train(COPY, tmp_path, device="cpu")


def test_metrics_that_were_changed_are_noticed(tmp_path, uninterrupted):
    interrupted_run(COPY, tmp_path, after=15)
    file = tmp_path / "metrics.jsonl"
    before = file.read_bytes()
    digit = before.index(b".") + 1
    file.write_bytes(before[:digit] + bytes([before[digit] ^ 1]) + before[digit + 1 :])
    assert load_run(tmp_path).metrics(), "this is JSON as before"
    with pytest.raises(
        RunError, match=r"metrics\.jsonl was changed since the checkpoint was saved"
    ):
        train(COPY, tmp_path, device="cpu")
    file.write_bytes(before)
    train(COPY, tmp_path, device="cpu")
    assert outcome(tmp_path) == uninterrupted(COPY.name)


def test_a_checkpoint_without_a_digest_of_the_metrics_is_read(tmp_path, uninterrupted):
    """Such as earlier versions wrote."""
    interrupted_run(COPY, tmp_path, after=15)
    saved = load_newest(tmp_path / "checkpoints", warn=pytest.fail)
    assert saved is not None
    del saved.record["metrics_sha256"]
    save_checkpoint(tmp_path / "checkpoints", saved)
    train(COPY, tmp_path, device="cpu")
    assert outcome(tmp_path) == uninterrupted(COPY.name)


def test_metrics_that_cannot_be_opened_are_one_sentence(tmp_path):
    interrupted_run(COPY, tmp_path, after=15)
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"could not write .*metrics.jsonl \(Is a directory\)"):
        train(COPY, tmp_path, device="cpu")


def test_another_number_of_threads_is_said_aloud(tmp_path):
    interrupted_run(COPY, tmp_path, after=5)
    events, listener = listening()
    torch.set_num_threads(2)
    try:
        train(COPY, tmp_path, device="cpu", listener=listener)
    finally:
        torch.set_num_threads(1)
    texts = [event.text for event in events if isinstance(event, Warned)]
    assert any("resumes on 2 threads and was saved on 1" in text for text in texts)


def test_checkpoints_by_the_clock(tmp_path):
    events, listener = listening()
    train(ADDITION, tmp_path, device="cpu", listener=listener, checkpoint_seconds=0)
    assert {e.update for e in events if isinstance(e, Saved)} == set(range(1, 25))


def test_checkpoints_come_when_a_run_has_doubled_its_time(tmp_path, monkeypatch):
    now, update = [1000.0], session.Session._update

    def one_second(self):
        now[0] += 1
        update(self)

    monkeypatch.setattr(keeper, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(session.Session, "_update", one_second)
    long = replace(ADDITION, updates=500, evaluate_every=250)

    saved = []

    def stop_once(event):
        if isinstance(event, Saved):
            saved.append(event.update)
            if event.update == 40:
                signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        train(long, tmp_path, device="cpu", listener=stop_once)
    assert saved == [10, 20, 40, 41]
    train(long, tmp_path, device="cpu", listener=stop_once)
    assert saved[4:] == [82, 164, 284, 404, 500]


def test_the_random_state_of_the_caller_is_left_alone(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(COPY, tmp_path, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_the_folder_tells_everything(tmp_path):
    events, listener = listening()
    result = train(HIGHWAY, tmp_path, device="cpu", listener=listener)
    record = json.loads((tmp_path / "experiment.json").read_text())
    assert record["experiment"]["model"]["matrix"] == {"kind": "low-rank", "rank": 4, "tied": False}
    assert {"identity", "data", "versions", "commit", "machine", "backend"} <= record.keys()
    assert record["versions"]["torch"] == torch.__version__
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"train", "valid", "test"}
    assert sum(line["kind"] == "test" for line in lines) == 1
    written = json.loads((tmp_path / "result.json").read_text())
    names = "preset seed metric value paper_value updates parameters seconds device backend commit"
    assert set(names.split()) <= written.keys()
    assert written["value"] == result.value == result.test[result.metric]
    kinds = {type(event) for event in events}
    assert {Started, Evaluated, Saved} <= kinds
