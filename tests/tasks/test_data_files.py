"""Where files are looked for, what verify says, and downloads from a server with faults."""

from __future__ import annotations

import builtins
import errno
import gzip
import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from passnet.tasks import data, download
from passnet.tasks.catalogue import CATALOGUE, RemoteFile
from passnet.tasks.data import DataError

if TYPE_CHECKING:
    from conftest import Mirror

CONTENT = bytes(range(256)) * 5000


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def file(mirror: Mirror) -> RemoteFile:
    mirror.content = CONTENT
    digest = hashlib.sha256(CONTENT).hexdigest()
    return RemoteFile("toy", "numbers", digest, len(CONTENT), (mirror.url,), packed=False)


def get(file: RemoteFile, folder: Path | None, **options: object) -> data.FileStatus:
    with patch.object(data, "CATALOGUE", (file,)):
        (status,) = data.fetch(["toy"], data_dir=folder, timeout=5.0, **options)
    return status


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_search_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache" / "passnet"
    assert data.search_path() == [cache]
    monkeypatch.setenv("PASSNET_DATA", str(tmp_path / "shared"))
    assert data.search_path(tmp_path / "own") == [tmp_path / "own", tmp_path / "shared", cache]
    for folder in data.search_path(tmp_path / "own")[::-1]:
        (folder / "ptb").mkdir(parents=True)
        (folder / "ptb" / "ptb.test.txt").write_text("any")
        assert data.list_files(data_dir=tmp_path / "own")[-1].path == folder / "ptb/ptb.test.txt"


def test_both_forms_are_accepted(file: RemoteFile, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "numbers.gz").write_bytes(gzip.compress(CONTENT))
    with patch.object(data, "CATALOGUE", (file,)):
        assert data.read("toy", "numbers", data_dir=tmp_path) == CONTENT
        (tmp_path / "toy" / "numbers").write_bytes(b"plain, which is looked at first")
        with pytest.raises(DataError, match="numbers is truncated"):
            data.read("toy", "numbers", data_dir=tmp_path)


def test_list_and_verify(tmp_path: Path) -> None:
    states = {(s.dataset, s.state) for s in data.list_files(data_dir=tmp_path)}
    assert states == {("mnist", "missing"), ("ptb", "missing")}
    (tmp_path / "ptb").mkdir()
    (tmp_path / "ptb" / "ptb.test.txt").write_bytes(b"short")
    (tmp_path / "ptb" / "ptb.valid.txt").write_bytes(b"x" * 399_782)
    (tmp_path / "ptb" / "ptb.train.txt.gz").write_bytes(gzip.compress(b"y" * 10**5)[:-20])
    assert [s.state for s in data.list_files(data_dir=tmp_path)][-3:] == ["present"] * 3
    train, valid, test = data.verify(["ptb"], data_dir=tmp_path)
    assert (train.state, valid.state, test.state) == ("wrong",) * 3
    assert train.note == "is truncated: its gzip data break off"
    assert "instead of c9fe6985" in valid.note
    assert test.note == "is truncated: it holds 5 of 449945 bytes"
    with pytest.raises(DataError, match=r"ptb.test.txt is truncated.*passnet data fetch ptb"):
        data.read("ptb", "ptb.test.txt", data_dir=tmp_path)
    with pytest.raises(DataError, match="no data set is called 'imdb': there are mnist, ptb"):
        data.verify(["imdb"])
    with pytest.raises(DataError, match="has no file 'x'"):
        data.read("ptb", "x")


def test_damaged_gzip_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "ptb").mkdir()
    path = tmp_path / "ptb" / "ptb.test.txt.gz"
    packed = gzip.compress(CONTENT)
    wrong_block = packed[:10] + b"\xff" + packed[11:]
    wrong_checksum = packed[:-8] + b"\x00\x00\x00\x00" + packed[-4:]
    for content in (b"not gzip at all", wrong_block, wrong_checksum):
        path.write_bytes(content)
        with pytest.raises(DataError, match="remove it and run") as caught:
            data.read("ptb", "ptb.test.txt", data_dir=tmp_path)
        assert "\n" not in str(caught.value)


def test_the_catalogue_is_complete() -> None:
    assert len({(file.dataset, file.name) for file in CATALOGUE}) == 7
    for file in CATALOGUE:
        assert len(bytes.fromhex(file.sha256)) == 32 and len(file.urls) == 2
        assert all(url.startswith("https://") and file.name in url for url in file.urls)


def test_nothing_is_fetched_or_imported_by_importing() -> None:
    code = (
        "import socket, sys\n"
        "def no(*a, **k): raise SystemExit('a socket was opened')\n"
        "socket.socket.connect = no\n"
        "import passnet.tasks.data\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "passnet.tasks.data.list_files()\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONWARNINGS": ""}
    )


def test_fetch_and_leave_alone(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    seen = []
    status = get(file, tmp_path, progress=lambda *arguments: seen.append(arguments))
    assert status.path == tmp_path / "toy" / "numbers" and status.state == "right"
    assert status.path.read_bytes() == CONTENT and names(tmp_path) == ["numbers"]
    assert seen[-1] == ("numbers", len(CONTENT), len(CONTENT))
    assert [have for _, have, _ in seen] == sorted(have for _, have, _ in seen)
    get(file, tmp_path)
    assert mirror.ranges == [None]


def test_fetch_goes_to_the_cache_by_default(file: RemoteFile, tmp_path: Path) -> None:
    assert get(file, None).path == tmp_path / "cache" / "passnet" / "toy" / "numbers"


def test_a_packed_file_is_judged_by_its_content(mirror: Mirror, tmp_path: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = RemoteFile("toy", "numbers", digest, len(CONTENT), (mirror.url,), packed=True)
    for level in (1, 9):
        mirror.content = gzip.compress(CONTENT, level)
        folder = tmp_path / str(level)
        assert get(file, folder).path.name == "numbers.gz"
    mirror.content = CONTENT
    with pytest.raises(DataError, match="not a gzip file"):
        get(file, tmp_path / "plain")
    assert names(tmp_path / "plain") == []


def test_a_truncated_answer_is_continued(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    mirror.faults = ["truncated", "truncated"]
    assert get(file, tmp_path).path.read_bytes() == CONTENT
    half = len(CONTENT) // 2
    quarter = half + (len(CONTENT) - half) // 2
    assert mirror.ranges == [None, f"bytes={half}-", f"bytes={quarter}-"]
    assert names(tmp_path) == ["numbers"]


def test_a_truncated_file_stays_a_part_and_is_continued_later(
    file: RemoteFile, mirror: Mirror, tmp_path: Path
) -> None:
    mirror.faults = ["truncated"]
    with pytest.raises(
        DataError, match=r"truncated after 640000 of 1280000 .*run it again"
    ) as caught:
        get(file, tmp_path, attempts=1)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["numbers.part"]
    assert get(file, tmp_path).path.read_bytes() == CONTENT
    assert mirror.ranges == [None, "bytes=640000-"] and names(tmp_path) == ["numbers"]


def test_a_server_that_ignores_ranges(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    mirror.honours_range = False
    mirror.faults = ["truncated"]
    assert get(file, tmp_path).path.read_bytes() == CONTENT


def test_a_wrong_part_is_refused(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    mirror.faults = ["truncated", "wrong part"]
    with pytest.raises(DataError, match="another part of the file"):
        get(file, tmp_path)
    assert names(tmp_path) == ["numbers.part"]
    assert get(file, tmp_path).path.read_bytes() == CONTENT


def test_a_stale_part_is_thrown_away(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    for stale in (b"old" * 100, b"z" * len(CONTENT), b"z" * 2 * len(CONTENT)):
        (tmp_path / "toy" / "numbers.part").write_bytes(stale)
        (tmp_path / "toy" / "numbers").unlink(missing_ok=True)
        assert get(file, tmp_path).path.read_bytes() == CONTENT
        assert names(tmp_path) == ["numbers"]
    assert mirror.ranges[:2] == ["bytes=300-", None]


def test_a_complete_part_only_needs_its_name(
    file: RemoteFile, mirror: Mirror, tmp_path: Path
) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "numbers.part").write_bytes(CONTENT)
    assert get(file, tmp_path).path.read_bytes() == CONTENT
    assert mirror.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_wrong_digest_leaves_nothing(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    mirror.faults = ["flipped"] * 3
    with pytest.raises(DataError, match=r"has the SHA-256 .* instead of") as caught:
        get(file, tmp_path)
    assert "\n" not in str(caught.value) and names(tmp_path) == []
    assert len(mirror.ranges) == 1


def test_too_many_bytes_leave_nothing(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    mirror.content = CONTENT + bytes(100_000)
    with pytest.raises(DataError, match="bytes instead of at most"):
        get(file, tmp_path)
    mirror.content = CONTENT
    mirror.faults = ["no length"]
    assert get(replace(file, name="n"), tmp_path).state == "right"
    mirror.content = CONTENT * 2
    mirror.faults = ["no length"]
    with pytest.raises(DataError, match=r"more than .* bytes arrived"):
        get(file, tmp_path)
    assert names(tmp_path) == ["n"]


def test_the_next_mirror_is_tried(file: RemoteFile, mirror: Mirror, tmp_path: Path) -> None:
    two = replace(file, mirrors=(mirror.url + "a/", mirror.url + "b/"))
    for faults in (["404"], ["flipped"], ["500", "503", "500"]):
        mirror.faults = list(faults)
        get(two, tmp_path)
        (tmp_path / "toy" / "numbers").unlink()
    mirror.faults = ["404", "403"]
    with pytest.raises(
        DataError, match=r"answered 404; nor from .* answered 403; or put the file into"
    ):
        get(two, tmp_path)
    assert names(tmp_path) == []


def test_no_server_at_all(file: RemoteFile, tmp_path: Path) -> None:
    nowhere = replace(file, mirrors=("http://127.0.0.1:9/",))
    with pytest.raises(DataError, match=r"no answer .*refused.*; or put the file into .*yourself"):
        get(nowhere, tmp_path)
    assert names(tmp_path) == []


def test_a_damaged_file_is_replaced(file: RemoteFile, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "numbers").write_bytes(CONTENT[:-1])
    assert get(file, tmp_path).note == "fetched"
    assert (tmp_path / "toy" / "numbers").read_bytes() == CONTENT


def test_a_damaged_twin_does_not_hide_the_new_file(mirror: Mirror, tmp_path: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = RemoteFile("toy", "numbers", digest, len(CONTENT), (mirror.url,), packed=True)
    mirror.content = gzip.compress(CONTENT)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "numbers").write_bytes(b"damaged")
    get(file, tmp_path)
    assert names(tmp_path) == ["numbers.gz", "numbers.wrong"]
    get(file, tmp_path)
    assert len(mirror.ranges) == 1


class FullDisk:
    """A file on a disk that has no room left after some bytes."""

    def __init__(self, inner: object, room: int) -> None:
        self.inner, self.room = inner, room

    def write(self, block: bytes) -> int:
        self.room -= len(block)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.inner.write(block)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *arguments: object) -> None:
        self.inner.close()


def test_a_full_disk_leaves_nothing(
    file: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: object, mode: str = "r") -> object:
        handle = builtins.open(path, mode)  # noqa: SIM115
        return FullDisk(handle, 300_000) if mode == "ab" else handle

    monkeypatch.setattr(download, "open", opened, raising=False)
    with pytest.raises(DataError, match=r"disk of .* is full: nothing was kept") as caught:
        get(file, tmp_path)
    assert "\n" not in str(caught.value) and names(tmp_path) == []


def test_a_folder_that_cannot_be_written(file: RemoteFile, tmp_path: Path) -> None:
    (tmp_path / "toy").write_text("a file, not a folder")
    with pytest.raises(DataError, match=r"cannot write numbers in .*exists"):
        get(file, tmp_path)


def test_two_processes_do_not_mix_their_bytes(file: RemoteFile, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "toy").mkdir()
    with open(tmp_path / "toy" / "numbers.part", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is fetching numbers"):
            get(file, tmp_path)
    assert get(file, tmp_path).state == "right"


def test_the_name_appears_only_after_the_bytes_are_on_disk(
    file: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("sync"), real_sync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (steps.append("name"), real_replace(a, b))[1])
    get(file, tmp_path)
    assert steps == ["sync", "name", "sync"]
