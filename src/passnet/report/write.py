"""Pages and tables written where users want them."""

from __future__ import annotations

import os
from pathlib import Path

from passnet.config import whole_files
from passnet.report.errors import ReportError


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace `path` at once; what was there stays on failure.

    A link stays a link: the file it leads to is replaced.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ReportError(
            f"could not write {path}: it is not a regular file and would be replaced: give another"
        )
    try:
        whole_files.write_whole(target, text.encode(), shared=True)
    except OSError as error:
        raise ReportError(
            f"could not write {path} ({error.strerror or error}): give a file in a folder that "
            "exists and may be written to"
        ) from error
