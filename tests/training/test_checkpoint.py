"""Checkpoints come back exactly as written, or say what is wrong and leave everything in place."""

from __future__ import annotations

import json
import os
import random
import resource

import pytest
import safetensors.torch
import torch

from passnet.config.whole_files import write_whole
from passnet.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_newest,
    save_checkpoint,
)
from passnet.training.errors import CheckpointError


def checkpoint(update, *, identity="abc"):
    torch.manual_seed(update)
    tensors = {
        "model.weight": torch.randn(5, 3),
        "model.half": torch.randn(4).bfloat16(),
        "optimiser.step.weight": torch.tensor(float(update)),
        "meter.loss": torch.tensor(0.1, dtype=torch.float64),
        "model.permutation": torch.randperm(6),
    }
    return Checkpoint(update, identity, {"progress": {"update": update, "best": 0.1}}, tensors)


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def data_file(folder, update):
    return next(folder.glob(f"update-{update:09d}-*.safetensors"))


def manifest(folder, update):
    return folder / f"update-{update:09d}.json"


def refuse(text):
    raise AssertionError(f"an unexpected warning: {text}")


def test_what_is_saved_comes_back_bit_for_bit(tmp_path):
    saved = checkpoint(7)
    save_checkpoint(tmp_path, saved)
    loaded = load_newest(tmp_path, identities=["abc"], warn=refuse)
    assert (loaded.update, loaded.identity, loaded.record) == (7, "abc", saved.record)
    assert loaded.tensors.keys() == saved.tensors.keys()
    for name, tensor in saved.tensors.items():
        assert torch.equal(loaded.tensors[name], tensor)
        assert loaded.tensors[name].dtype == tensor.dtype


def test_no_checkpoint_is_not_an_error(tmp_path):
    assert load_newest(tmp_path / "none", warn=refuse) is None


def test_the_newest_two_are_kept(tmp_path):
    for update in (1, 2, 3, 10):
        save_checkpoint(tmp_path, checkpoint(update))
    assert [path.stem for path in sorted(tmp_path.glob("*.json"))] == [
        "update-000000003",
        "update-000000010",
    ]
    assert len(list(tmp_path.iterdir())) == 4


def test_saving_an_update_again_replaces_it(tmp_path):
    save_checkpoint(tmp_path, checkpoint(3))
    other = checkpoint(3)
    other.tensors["model.weight"].add_(1)
    save_checkpoint(tmp_path, other)
    loaded = load_newest(tmp_path, warn=refuse)
    assert torch.equal(loaded.tensors["model.weight"], other.tensors["model.weight"])
    assert len(list(tmp_path.iterdir())) == 2


def damage_truncated(folder):
    path = data_file(folder, 2)
    path.write_bytes(path.read_bytes()[:-5])
    return "bytes and should have"


def damage_empty(folder):
    data_file(folder, 2).write_bytes(b"")
    return "bytes and should have"


def damage_foreign_data(folder):
    path = data_file(folder, 2)
    content = safetensors.torch.save({"stranger": torch.zeros(3)})
    path.write_bytes(content.ljust(len(path.read_bytes()), b" "))
    return "SHA-256"


def damage_missing_data(folder):
    data_file(folder, 2).unlink()
    return "cannot be read"


def damage_no_json(folder):
    manifest(folder, 2).write_text("{")
    return "not JSON"


def damage_foreign_manifest(folder):
    manifest(folder, 2).write_text('{"format": "something else"}')
    return "not the manifest of a passnet checkpoint"


def damage_version(folder):
    body = json.loads(manifest(folder, 2).read_text())
    manifest(folder, 2).write_text(json.dumps(body | {"version": 99}))
    return "format version 99"


def damage_number(folder):
    text = manifest(folder, 2).read_text()
    manifest(folder, 2).write_text(text.replace('"best": 0.1', '"best": 0.2'))
    return "SHA-256 does not match"


DAMAGES = (
    damage_truncated,
    damage_empty,
    damage_foreign_data,
    damage_missing_data,
    damage_no_json,
    damage_foreign_manifest,
    damage_version,
    damage_number,
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_falls_back_aloud(tmp_path, damage):
    for update in (1, 2):
        save_checkpoint(tmp_path, checkpoint(update))
    reason = damage(tmp_path)
    with pytest.raises(CheckpointError, match=reason):
        load_checkpoint(manifest(tmp_path, 2))
    before, warnings = files(tmp_path), []
    assert load_newest(tmp_path, warn=warnings.append).update == 1
    assert len(warnings) == 1
    assert reason in warnings[0]
    assert "falling back to update 1" in warnings[0]
    assert files(tmp_path) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_when_all_are_damaged_that_is_an_error_and_nothing_is_removed(tmp_path, damage):
    save_checkpoint(tmp_path, checkpoint(2))
    reason = damage(tmp_path)
    before = files(tmp_path)
    with pytest.raises(CheckpointError, match=f"no checkpoint .* can be used.*{reason}"):
        load_newest(tmp_path, warn=refuse, set_aside=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize("which", ["data", "manifest"])
def test_any_flipped_bit_is_noticed(tmp_path, which):
    save_checkpoint(tmp_path, checkpoint(2))
    path = data_file(tmp_path, 2) if which == "data" else manifest(tmp_path, 2)
    content = path.read_bytes()
    draw = random.Random(which)
    for _ in range(200):
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        path.write_bytes(flipped)
        try:
            load_checkpoint(manifest(tmp_path, 2))
        except CheckpointError:
            continue
        # JSON allows other white space between its tokens: the content is then the same.
        assert json.loads(flipped) == json.loads(content)


def test_a_damaged_one_is_set_aside_and_not_lost(tmp_path):
    for update in (1, 2):
        save_checkpoint(tmp_path, checkpoint(update))
    damage_truncated(tmp_path)
    load_newest(tmp_path, warn=lambda text: None, set_aside=True)
    names = [path.name for path in sorted(tmp_path.iterdir())]
    assert sum(name.endswith(".damaged") for name in names) == 2
    for update in (3, 4, 5):
        save_checkpoint(tmp_path, checkpoint(update))
    assert sum(path.name.endswith(".damaged") for path in tmp_path.iterdir()) == 2
    assert load_newest(tmp_path, warn=refuse).update == 5


def test_a_save_that_was_cut_short_is_passed_over(tmp_path):
    for update in (1, 2):
        save_checkpoint(tmp_path, checkpoint(update))
    manifest(tmp_path, 2).unlink()
    (tmp_path / "update-000000002.json.tmp").write_text("{")
    warnings = []
    assert load_newest(tmp_path, warn=warnings.append).update == 1
    assert "has no manifest" in warnings[0]
    save_checkpoint(tmp_path, checkpoint(3))
    assert len(list(tmp_path.iterdir())) == 4


def test_a_checkpoint_of_another_experiment_is_refused(tmp_path):
    save_checkpoint(tmp_path, checkpoint(2, identity="abc"))
    with pytest.raises(CheckpointError, match="belongs to another experiment"):
        load_newest(tmp_path, identities=["xyz"], warn=refuse)


def test_a_file_is_on_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    calls = []

    def noting(name, real):
        def call(*arguments):
            calls.append(name)
            return real(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noting(name, getattr(os, name)))
    write_whole(tmp_path / "file", b"new")
    assert calls == ["fsync", "replace", "fsync"]
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, name):
    write_whole(tmp_path / "file", b"old")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "file", b"new")
    assert files(tmp_path) == {"file": b"old"}


def test_a_full_disk_is_an_error_and_the_last_good_one_stays(tmp_path):
    save_checkpoint(tmp_path, checkpoint(1))
    before = files(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="the last good one is update-000000001"):
            save_checkpoint(tmp_path, checkpoint(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(tmp_path) == before


def test_a_pickle_is_never_loaded(tmp_path):
    save_checkpoint(tmp_path, checkpoint(2))
    torch.save({"model.weight": torch.zeros(3)}, data_file(tmp_path, 2))
    with pytest.raises(CheckpointError):
        load_newest(tmp_path, warn=refuse)
