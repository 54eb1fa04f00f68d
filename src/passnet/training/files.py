"""Files that are either wholly written or not there at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """Replace `path` at once: a temporary name beside it, fsync, rename, fsync of the folder.

    When it fails, as on a full disk, nothing is left behind and what was there stays.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder survive a loss of power."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        # Not every system lets a folder be opened; there the rename itself must do.
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def plain(value: Any) -> Any:
    """The value as standard JSON has it: numbers that are not finite become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def json_bytes(value: Any) -> bytes:
    """Indented JSON of a record, for people to read too."""
    return (json.dumps(plain(value), indent=1, allow_nan=False) + "\n").encode()
