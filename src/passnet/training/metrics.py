"""The file of a run's numbers, one JSON object a line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from passnet.training.errors import RunError
from passnet.training.plain_json import plain


@final
class MetricsFile:
    """`metrics.jsonl`: one JSON object a line, cut back to a known length when a run goes on.

    Lines hold nothing that depends on the clock, so the file of an interrupted run ends up equal,
    byte for byte, to that of an uninterrupted one.
    """

    def __init__(self, path: Path, *, position: int, sha256: str | None = None) -> None:
        self.path = path
        if position and (not path.exists() or path.stat().st_size < position):
            raise RunError(
                f"{path} is shorter than when the checkpoint was saved ({position} bytes): restore "
                "it from a copy, or train in another folder"
            )
        self._digest = hashlib.sha256()
        if position:
            with self._explaining(), open(path, "rb") as before:
                self._digest.update(before.read(position))
        # Checkpoints of earlier versions have none.
        if sha256 is not None and sha256 != self.sha256:
            raise RunError(
                f"{path} was changed since the checkpoint was saved, within its first {position} "
                "bytes: restore it from a copy, or train in another folder"
            )
        with self._explaining():
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the run
            self._file.truncate(position)
            self._file.seek(position)

    def append(self, **line: Any) -> None:
        """Add one line."""
        with self._explaining():
            content = (json.dumps(plain(line), allow_nan=False) + "\n").encode()
            if self._file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._digest.update(content)

    @property
    def sha256(self) -> str:
        """The digest of all lines so far."""
        return self._digest.hexdigest()

    def settle(self) -> int:
        """Force all lines to disk; returns the length of the file."""
        if not self.path.exists():
            raise RunError(
                f"{self.path} is gone: if the folder was moved while the run went on, move it back "
                "and run the same command again"
            )
        with self._explaining():
            os.fsync(self._file.fileno())
            return self._file.tell()

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"could not write {self.path} ({error.strerror or error}): make room and run the "
                "same command again"
            ) from error

    def close(self) -> None:
        """No line comes after this; what a full disk has refused before stays refused."""
        with contextlib.suppress(OSError):
            self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a `metrics.jsonl`."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines if line]
