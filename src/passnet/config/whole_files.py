"""Files that are either wholly written or not there at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Replace `path` at once: a temporary name beside it, fsync, rename, fsync of the folder.

    When it fails, as on a full disk, nothing is left behind and what was there stays. Where others
    may write the same file, `shared`, each process has a temporary name of its own.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp" if shared else f"{path.name}.tmp")
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
