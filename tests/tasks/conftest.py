"""Tiny data in their true formats, and a web server that can misbehave."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from passnet.tasks import data
from passnet.tasks.catalogue import RemoteFile


def idx_bytes(array: np.ndarray) -> bytes:
    """An array of bytes in MNIST's format."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


def publish(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make the files in a folder those that the catalogue knows."""
    known = []
    for path in folder.glob("*/*"):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        digest = hashlib.sha256(content).hexdigest()
        name = path.name.removesuffix(".gz")
        known.append(RemoteFile(path.parent.name, name, digest, len(content), (), packed=False))
    monkeypatch.setattr(data, "CATALOGUE", tuple(known))


@pytest.fixture
def tiny_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with 30 training and 8 test digits, half of the files packed."""
    folder = tmp_path / "data"
    (folder / "mnist").mkdir(parents=True)
    stream = np.random.RandomState(0)
    for part, size in (("train", 30), ("t10k", 8)):
        images = stream.randint(0, 256, (size, 28, 28))
        labels = np.arange(size) % 10
        (folder / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(idx_bytes(images))
        )
        (folder / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    publish(monkeypatch, folder)
    return folder


@pytest.fixture
def tiny_ptb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with lines as in the Penn Treebank files: a space at both ends."""
    folder = tmp_path / "data"
    (folder / "ptb").mkdir(parents=True, exist_ok=True)
    train = [" no it was n't <unk> ", " N years old ", " a b ", f" {'x' * 501} ", f" {'y' * 500} "]
    (folder / "ptb" / "ptb.train.txt").write_text("\n".join(train) + "\n")
    (folder / "ptb" / "ptb.valid.txt.gz").write_bytes(gzip.compress(b" it was \n N Q \n"))
    (folder / "ptb" / "ptb.test.txt").write_text(" old \n <unk> a \n a b \n")
    publish(monkeypatch, folder)
    return folder


class Mirror:
    """Serves `content` at every address; `faults` says how the next answers go wrong."""

    def __init__(self) -> None:
        self.content = b""
        self.faults: list[str] = []
        self.ranges: list[str | None] = []
        self.honours_range = True
        self.url = ""


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    state = Mirror()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            fault = state.faults.pop(0) if state.faults else ""
            if fault.isdigit():
                self.send_error(int(fault))
                return
            start = 0
            if asked and state.honours_range:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                if start >= len(state.content):
                    self.send_error(416)
                    return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            if start:
                first = start + 1 if fault == "wrong part" else start
                end = len(state.content) - 1
                self.send_header("Content-Range", f"bytes {first}-{end}/{len(state.content)}")
            if fault != "no length":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if fault == "truncated":
                body = body[: len(body) // 2]
            elif fault == "flipped":
                body = bytes((body[0] ^ 1,)) + body[1:]
            elif fault == "endless":
                body = body + b"x" * 1_000_000
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()
