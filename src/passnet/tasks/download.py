"""Fetch one file over HTTP: resumed where it stopped, checked, and only then given its name."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from passnet.config.whole_files import sync_folder

try:
    import fcntl
except ImportError:
    fcntl = None

Progress = Callable[[int, int | None], None]

_BLOCK = 1 << 18


class DataError(Exception):
    """Data are missing, damaged, too few or out of reach; the text is one sentence for the user."""


class _Interrupted(Exception):
    """The network failed; what has arrived is kept."""


class _Refused(Exception):
    """The server has no usable answer; another mirror may."""


def download(
    urls: Sequence[str],
    target: Path,
    *,
    check: Callable[[Path], str | None],
    limit: int,
    attempts: int = 3,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> None:
    """Put the file that one of `urls` serves at `target`, whole and checked, or raise DataError.

    Bytes are collected in `target.name + ".part"` in the same folder. That file outlives an
    interruption and is continued by the next call; it is removed when `check` finds fault with it,
    when more than `limit` bytes arrive, and when the disk is full.
    """
    part = target.with_name(target.name + ".part")
    reasons = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _claimed(part) as handle:
            for url in urls:
                reason = _from_mirror(url, handle, part, check, limit, attempts, timeout, progress)
                if reason is None:
                    os.fsync(handle.fileno())
                    _release(handle)
                    os.replace(part, target)
                    sync_folder(target.parent)
                    return
                reasons.append(f"{url}: {reason}")
            left = part.stat().st_size
            if left == 0:
                _release(handle)
                part.unlink()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            part.unlink(missing_ok=True)
            raise DataError(
                f"the disk of {target.parent} is full: nothing was kept of {target.name}; "
                "free some space or name another folder with --data-dir"
            ) from error
        why = error.strerror or error
        raise DataError(f"cannot write {target.name} in {target.parent}: {why}") from error
    kept = f" ({left} bytes are kept: run it again to continue)" if left else ""
    tried = "; nor from ".join(reasons)
    by_hand = f"; or put the file into {target.parent} yourself"
    raise DataError(f"could not fetch {target.name} from {tried}{kept}{by_hand}")


def _from_mirror(
    url: str,
    handle: BinaryIO,
    part: Path,
    check: Callable[[Path], str | None],
    limit: int,
    attempts: int,
    timeout: float,
    progress: Progress | None,
) -> str | None:
    """None when `part` now holds the checked file, else a few words why not."""
    reason = "no attempt was allowed"
    for _ in range(attempts):
        resumed = handle.seek(0, os.SEEK_END) > 0
        try:
            _transfer(url, handle, limit, timeout, progress)
        except _Interrupted as stop:
            reason = str(stop)
            continue
        except _Refused as refusal:
            return str(refusal)
        handle.flush()
        fault = check(part)
        if fault is None:
            return None
        reason = fault
        handle.truncate(0)
        if not resumed:
            break
    return reason


def _transfer(
    url: str, handle: BinaryIO, limit: int, timeout: float, progress: Progress | None
) -> None:
    """Append what is missing of the file at `url` to `handle`."""
    have = handle.seek(0, os.SEEK_END)
    headers = {"User-Agent": "passnet", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=timeout
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:
            # Nothing is missing, or the file changed: the check of the digest tells which.
            return
        if error.code in (408, 429) or error.code >= 500:
            raise _Interrupted(f"the server answered {error.code}") from error
        raise _Refused(f"the server answered {error.code}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(f"no answer ({getattr(error, 'reason', error)})") from error
    with answer:
        if answer.status == 206 and not _starts_at(answer, have):
            raise _Refused("the server sent another part of the file than was asked for")
        if answer.status != 206:
            handle.truncate(0)
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if total is not None and total > limit:
            raise _Refused(f"the file has {total} bytes instead of at most {limit}")
        while True:
            try:
                block = answer.read(_BLOCK)
            except (OSError, http.client.HTTPException) as error:
                handle.flush()
                raise _Interrupted(f"the connection broke after {have} bytes") from error
            if not block:
                break
            have += len(block)
            if have > limit:
                handle.truncate(0)
                raise _Refused(f"more than {limit} bytes arrived")
            handle.write(block)
            if progress is not None:
                progress(have, total)
    handle.flush()
    if total is not None and have < total:
        raise _Interrupted(f"truncated after {have} of {total} bytes")


def _starts_at(answer: http.client.HTTPResponse, offset: int) -> bool:
    return answer.headers.get("Content-Range", "").startswith(f"bytes {offset}-")


@contextlib.contextmanager
def _claimed(part: Path) -> Iterator[BinaryIO]:
    """The file opened for appending, by this process alone where the system can say so."""
    while True:
        with open(part, "ab") as handle:
            if fcntl is not None:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise DataError(
                        f"another process is fetching {part.stem} into {part.parent}: wait for it"
                    ) from error
            # Another process may have finished, and renamed the file, before the lock was ours.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle.fileno()), os.stat(part)):
                    yield handle
                    return


def _release(handle: BinaryIO) -> None:
    # Where there is no lock to keep, an open file can usually not be renamed or removed either.
    if fcntl is None:
        handle.close()
