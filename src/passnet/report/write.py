"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from passnet.report.errors import ReportError


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace `path` at once, by a temporary name beside it; what was there stays on failure.

    A link stays a link: the file it leads to is replaced.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ReportError(
            f"could not write {path}: it is no regular file and would be replaced: give another"
        )
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise ReportError(
            f"could not write {path} ({error.strerror or error}): give a file in a folder that "
            "exists and may be written to"
        ) from error
