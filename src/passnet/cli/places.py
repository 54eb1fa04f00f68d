"""Refusing places that could not be written to, before any work is done."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from passnet.config import ConfigurationError
from passnet.config.run_folder import EXPERIMENT_FILE


def check_file(option: str, path: Path, *, written: bool = True, replaced: bool = False) -> None:
    """Raise where `path` cannot be a file or, when it is to be written, must not be.

    What is to be `replaced` must not be a device or a pipe.
    """
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if path.is_dir():
        raise ConfigurationError(f"{option} {path}: this is a folder, give a file in it")
    if replaced and path.exists() and not path.is_file():
        raise ConfigurationError(
            f"{option} {path}: this is not a regular file and would be replaced: give another"
        )
    if not folder.is_dir():
        raise ConfigurationError(
            f"{option} {path}: there is no folder {folder}: create it, or give a file in an "
            "existing one"
        )
    if written:
        _check_access(option, path, folder)


def check_page(option: str, path: Path, *, written: bool = True) -> None:
    """Raise where `path` cannot be a page, replaced as a whole, or its name says it is not one."""
    check_file(option, path, written=written, replaced=True)
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise ConfigurationError(
            f"{option} {path}: the page is HTML, so give a file that ends in .html, not in "
            f"{path.suffix}"
        )


def check_folder(option: str, path: Path, *, written: bool = True) -> None:
    """Raise where `path` cannot be a folder or, when files are to come into it, must not be."""
    found = _nearest(path)
    if not found.is_dir():
        raise ConfigurationError(
            f"{option} {path}: {found} is a file, but a folder is needed: give another"
        )
    if written:
        _check_access(option, path, found)


def check_run(folder: Path) -> None:
    """Raise where `folder` holds no run."""
    if not folder.is_dir():
        raise ConfigurationError(
            f"there is no folder {folder}: give the folder of a run, such as one in runs/"
        )
    if not (folder / EXPERIMENT_FILE).is_file():
        raise ConfigurationError(no_run(folder))


def no_run(folder: Path) -> str:
    """The sentence for a folder that is not that of a run."""
    below = next((place.parent for place in sorted(folder.glob(f"*/{EXPERIMENT_FILE}"))), None)
    other = f", such as {below}" if below is not None else ""
    return (
        f"{folder} is a folder without {EXPERIMENT_FILE}, so it holds no run: give the folder of a "
        f"run{other}"
    )


def _nearest(path: Path) -> Path:
    """The path, or what exists of it."""
    return next((place for place in (path, *path.parents) if os.path.lexists(place)), Path())


def _check_access(option: str, path: Path, folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"{option} {path}: nothing can be written in {folder} ({error.strerror or error}): "
            "choose another place, or change its permissions"
        ) from error
