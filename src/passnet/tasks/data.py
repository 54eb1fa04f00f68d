"""Where data files are, whether they are right, and how to get them; needs no torch."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from passnet.tasks.catalogue import CATALOGUE, DATASETS, RemoteFile
from passnet.tasks.download import DataError, download

__all__ = ["DataError", "FileStatus", "fetch", "list_files", "read", "search_path", "verify"]

_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileStatus:
    """What is known of one file: `present` has not been read, `right` and `wrong` have."""

    dataset: str
    name: str
    state: Literal["present", "right", "wrong", "missing"]
    path: Path | None
    note: str = ""


def search_path(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders that are searched, in order: `data_dir`, PASSNET_DATA, the user's cache."""
    named = [data_dir, os.environ.get("PASSNET_DATA")]
    return [Path(folder).expanduser() for folder in named if folder] + [_cache_folder()]


def looked_in(data_dir: str | os.PathLike[str] | None = None) -> str:
    """Those folders in words, with those that do not exist."""
    return ", ".join(
        str(folder) if folder.is_dir() else f"{folder} (there is no such folder)"
        for folder in search_path(data_dir)
    )


def read(dataset: str, name: str, *, data_dir: str | os.PathLike[str] | None = None) -> bytes:
    """The unpacked content of a file, compared with the published SHA-256."""
    file = _named(dataset, name)
    path = _find(file, data_dir)
    if path is None:
        raise DataError(
            f"{dataset}/{name} was not found in {looked_in(data_dir)}: run `passnet data fetch "
            f"{dataset}`, or name the folder that holds {dataset}/{name} or {dataset}/{name}.gz "
            "with --data-dir"
        )
    blocks: list[bytes] = []
    fault = _scan(path, file, blocks.append)
    if fault is not None:
        raise DataError(f"{path} {fault}: remove it and run `passnet data fetch {dataset}`")
    return b"".join(blocks)


def list_files(*, data_dir: str | os.PathLike[str] | None = None) -> list[FileStatus]:
    """Which of the known files are there, without reading them."""
    found = [(file, _find(file, data_dir)) for file in CATALOGUE]
    return [
        FileStatus(file.dataset, file.name, "present" if path else "missing", path)
        for file, path in found
    ]


def verify(
    datasets: Sequence[str] = DATASETS, *, data_dir: str | os.PathLike[str] | None = None
) -> list[FileStatus]:
    """Read every file of the data sets and compare its content with the published SHA-256."""
    return [_status(file, data_dir) for file in _files(datasets)]


def fetch(
    datasets: Sequence[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int | None], None] | None = None,
    attempts: int = 3,
    timeout: float = 30.0,
) -> list[FileStatus]:
    """Download what is missing or wrong into the first folder of `search_path`.

    A file that is found and right is left alone, wherever it is. A wrong one in the first folder is
    replaced; elsewhere it is left, and the new file is found before it.
    `progress(name, bytes so far, bytes in all or None)` is called as bytes arrive.
    """
    done = []
    for file in _files(datasets):
        status = _status(file, data_dir)
        if status.state != "right":
            folder = search_path(data_dir)[0] / file.dataset
            target = folder / file.remote_name
            shown = progress and (lambda have, total, of=file.name: progress(of, have, total))
            download(
                file.urls,
                target,
                check=lambda part, of=file: _scan(part, of, packed=of.packed),
                # A packed file is never much larger than its content.
                limit=file.size + 65_536,
                attempts=attempts,
                timeout=timeout,
                progress=shown or None,
            )
            _set_aside_twin(folder, file)
            status = FileStatus(file.dataset, file.name, "right", target, "fetched")
        done.append(status)
    return done


def _files(datasets: Sequence[str]) -> list[RemoteFile]:
    known = tuple(dict.fromkeys(file.dataset for file in CATALOGUE))
    for dataset in datasets:
        if dataset not in known:
            raise DataError(f"no data set is called {dataset!r}: there are {', '.join(known)}")
    return [file for file in CATALOGUE if file.dataset in datasets]


def _named(dataset: str, name: str) -> RemoteFile:
    for file in _files([dataset]):
        if file.name == name:
            return file
    raise DataError(f"data set {dataset} has no file {name!r}")


def _find(file: RemoteFile, data_dir: str | os.PathLike[str] | None) -> Path | None:
    for folder in search_path(data_dir):
        for name in (file.name, f"{file.name}.gz"):
            path = folder / file.dataset / name
            if path.is_file():
                return path
    return None


def _status(file: RemoteFile, data_dir: str | os.PathLike[str] | None) -> FileStatus:
    path = _find(file, data_dir)
    if path is None:
        return FileStatus(file.dataset, file.name, "missing", None)
    fault = _scan(path, file)
    return FileStatus(file.dataset, file.name, "wrong" if fault else "right", path, fault or "")


def _scan(
    path: Path,
    file: RemoteFile,
    take: Callable[[bytes], object] | None = None,
    *,
    packed: bool | None = None,
) -> str | None:
    """Read the content block by block; a few words when it cannot be read or is not the file's."""
    packed = path.suffix == ".gz" if packed is None else packed
    digest, size = hashlib.sha256(), 0
    try:
        with gzip.open(path) if packed else open(path, "rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
                size += len(block)
                if take is not None:
                    take(block)
                if size > file.size:
                    return f"holds more than its {file.size} bytes"
    except EOFError:
        return "is truncated: its gzip data break off"
    except (gzip.BadGzipFile, zlib.error) as error:
        return f"is damaged or not a gzip file ({error})"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if digest.hexdigest() != file.sha256:
        if size < file.size:
            return f"is truncated: it holds {size} of {file.size} bytes"
        return f"has the SHA-256 {digest.hexdigest()} instead of {file.sha256}"
    return None


def _set_aside_twin(folder: Path, file: RemoteFile) -> None:
    # A damaged file in the other form would be found before, or instead of, the new one.
    for name in {file.name, f"{file.name}.gz"} - {file.remote_name}:
        if (folder / name).is_file():
            os.replace(folder / name, folder / f"{name}.wrong")


def _cache_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "passnet"
