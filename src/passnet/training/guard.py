"""The folder of a run while somebody trains in it: made, locked, and gone again if no run began."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from passnet.config.run_folder import EXPERIMENT_FILE
from passnet.training.errors import Refused, RunError

try:
    import fcntl
except ImportError:  # not a POSIX system: runs are not guarded against each other there
    fcntl = None

LOCK = "lock"


@contextlib.contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Nobody else trains in this folder meanwhile; ends with the process, however it ends.

    Where no run has begun by then, nothing stays that was not there before; nor does a lock in the
    copy of a run, which had none.
    """
    missing = [place for place in (path, *path.parents) if not os.path.exists(place)]
    lock = path / LOCK
    new, copied = not os.path.exists(lock), os.path.exists(path / EXPERIMENT_FILE)
    try:
        _make(path)
        with _locked(path):
            try:
                yield
            finally:
                # While it is held: whoever waits for it sees that it is another file by then.
                if new and (copied or not (path / EXPERIMENT_FILE).exists()):
                    lock.unlink(missing_ok=True)
    finally:
        _remove_empty(missing)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = [place.name for place in path.iterdir()]
    except OSError as error:
        raise Refused(
            f"cannot make the folder {path} ({error.strerror or error}): give a folder that is new "
            "or holds a run, where files may be written"
        ) from error
    strangers = [name for name in found if name not in (LOCK, f"{EXPERIMENT_FILE}.tmp")]
    if strangers and EXPERIMENT_FILE not in found:
        raise Refused(
            f"{path} holds {strangers[0]} and no {EXPERIMENT_FILE}: give an empty or new folder"
        )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    with _open_lock(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = not _is_file(lock, path / LOCK)
        except BlockingIOError:
            taken = True
        except OSError:
            # Some network file systems have no locks: then the user is the guard.
            taken = False
        if taken:
            raise RunError(f"another process trains in {path}: wait for it, or use another folder")
        yield


def _is_file(handle: TextIO, path: Path) -> bool:
    """Whether the file is still the one of that name, which another process may have removed."""
    return path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat())


def _open_lock(path: Path) -> TextIO:
    try:
        return open(path / LOCK, "w")
    except OSError as error:
        raise Refused(
            f"nothing can be written in {path} ({error.strerror or error}): choose another folder, "
            "or change its permissions"
        ) from error


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of the folders, given from the innermost outwards, that hold nothing."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
