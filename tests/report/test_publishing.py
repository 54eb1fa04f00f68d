"""A finished run among the results: its three files, thinned, and whole or no result at all."""

from __future__ import annotations

import json

import pytest
from made_up_runs import experiment_of, write_run

from passnet.report import ReportError, publish_run
from passnet.report.publish import thinned_metrics
from passnet.report.read import read_run

LRD = "psmnist/lrd-gru-128-24"


@pytest.fixture
def run(tmp_path):
    folder = write_run(tmp_path / "runs" / "a", experiment_of(LRD), value=0.93, start=0.1)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "update-1.safetensors").write_bytes(b"heavy")
    (folder / "weights.safetensors").write_bytes(b"heavy")
    (folder / "lock").touch()
    return folder


def test_what_is_light_is_copied_as_it_is(run, tmp_path):
    destination = tmp_path / "results" / LRD / "seed-0"
    published = publish_run(run, destination)
    names = ["experiment.json", "metrics.jsonl", "result.json"]
    assert sorted(path.name for path in destination.iterdir()) == names
    for name in names:
        assert (destination / name).read_bytes() == (run / name).read_bytes()
    assert published.path == destination and published.outcome == read_run(run).outcome
    assert (run / "weights.safetensors").exists()


def test_an_unfinished_run_is_refused(tmp_path):
    folder = write_run(tmp_path / "a", experiment_of(LRD), value=0.9, finished=False)
    with pytest.raises(ReportError, match="not finished"):
        publish_run(folder, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_result_is_never_overwritten(run, tmp_path):
    destination = tmp_path / "b"
    publish_run(run, destination)
    before = (destination / "result.json").stat()
    with pytest.raises(ReportError, match="holds a result already"):
        publish_run(run, destination)
    assert (destination / "result.json").stat() == before


def test_a_run_that_went_on_takes_the_place_of_its_result_for_want_of_time(run, tmp_path):
    destination = tmp_path / "b"
    words = {"value": 0.8, "stopped": "time: 9 minutes have no room for another evaluation"}
    publish_run(write_run(tmp_path / "cut", experiment_of(LRD), **words), destination)
    another = write_run(tmp_path / "another", experiment_of(LRD, seed=1), value=0.9)
    with pytest.raises(ReportError, match="holds a result already"):
        publish_run(another, destination)
    assert publish_run(run, destination).outcome == read_run(run).outcome
    with pytest.raises(ReportError, match="holds a result already"):
        publish_run(run, destination)


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_a_copy_that_is_cut_short_has_no_result_and_can_be_repeated(
    run, tmp_path, monkeypatch, whole
):
    from passnet.report import publish

    real, left = publish.write_whole, iter(range(whole))

    def write(path, text):
        if next(left, None) is None:
            raise ReportError("the disk is full")
        real(path, text)

    monkeypatch.setattr(publish, "write_whole", write)
    destination = tmp_path / "b"
    with pytest.raises(ReportError, match="full"):
        publish_run(run, destination)
    assert not (destination / "result.json").exists()
    monkeypatch.setattr(publish, "write_whole", real)
    assert publish_run(run, destination).outcome is not None


def test_a_place_that_cannot_be_made_is_one_sentence(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="could not be copied"):
        publish_run(run, tmp_path / "file" / "b")


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def made_up_metrics(training: int, *, evaluated_every: int = 7) -> str:
    found = []
    for update in range(1, training + 1):
        found.append({"kind": "train", "update": update, "loss": 1 / update})
        if update % evaluated_every == 0:
            found.append({"kind": "valid", "update": update, "accuracy": 0.5})
    found.append({"kind": "test", "update": training, "accuracy": 0.5})
    return "".join(json.dumps(line) + "\n" for line in found)


@pytest.mark.parametrize("training", [1, 999, 1000])
def test_few_lines_stay_as_they_are(training):
    text = made_up_metrics(training)
    assert thinned_metrics(text) == text


@pytest.mark.parametrize("training", [1001, 1999, 3255, 10_000])
def test_many_training_lines_are_thinned_evenly_and_scores_are_kept(training):
    before = lines(made_up_metrics(training))
    after = lines(thinned_metrics(made_up_metrics(training)))
    assert [x for x in after if x["kind"] != "train"] == [x for x in before if x["kind"] != "train"]
    kept = [line["update"] for line in after if line["kind"] == "train"]
    assert len(kept) == 1000 and kept[-1] == training and kept == sorted(set(kept))
    gaps = {b - a for a, b in zip([0, *kept], kept, strict=False)}
    assert max(gaps) - min(gaps) <= 1
    assert [line["update"] for line in after] == sorted(line["update"] for line in after)
