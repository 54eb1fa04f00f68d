"""Who trains in a folder is alone there, and one who does not begin leaves it as it was."""

from __future__ import annotations

import pytest

from passnet.training import RunError
from passnet.training.guard import guarded


def test_what_was_made_for_a_run_that_did_not_begin_is_removed(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(KeyError), guarded(tmp_path / "runs" / "group" / "run"):
        raise KeyError
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_was_there_before_stays(tmp_path):
    (tmp_path / "lock").touch()
    with guarded(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_the_lock_of_a_run_stays_with_it(tmp_path):
    with guarded(tmp_path / "run"):
        (tmp_path / "run" / "experiment.json").touch()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"experiment.json", "lock"}


def test_a_copy_of_a_run_is_left_without_a_lock(tmp_path):
    (tmp_path / "experiment.json").touch()
    with guarded(tmp_path):
        assert (tmp_path / "lock").exists()
    assert not (tmp_path / "lock").exists()


def test_a_name_that_is_too_long_leaves_no_parents(tmp_path):
    with (
        pytest.raises(RunError, match="cannot make the folder"),
        guarded(tmp_path / "runs" / ("x" * 300)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_removed_guards_nothing(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    take = fcntl.flock

    def removed_meanwhile(lock, how):
        (tmp_path / "lock").unlink()
        take(lock, how)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with pytest.raises(RunError, match="another process trains"), guarded(tmp_path):
        pass
