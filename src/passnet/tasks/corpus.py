"""Text as numbered characters: where it comes from, its splits and its vocabulary."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np

from passnet.tasks.data import DataError, read

TextSource = Literal["embedded", "ptb", "file"]
Unk = Literal["spelled", "symbol"]

END, UNKNOWN = 0, 1
UNKNOWN_CHARACTER = "\ufffd"


@dataclass(frozen=True)
class Vocabulary:
    """The characters of the training text in order of code point, after two symbols of our own.

    Symbol 0 ends a line, and also stands before the first character. Symbol 1 is every character
    that the training text does not have: it is an input and a target like any other, so it costs
    a model what it should, and `decode` writes it as U+FFFD.
    """

    characters: str

    @staticmethod
    def of(text: str) -> Vocabulary:
        """The vocabulary of a training text."""
        return Vocabulary("".join(sorted(set(text) - {"\n", UNKNOWN_CHARACTER})))

    def __len__(self) -> int:
        return len(self.characters) + 2

    def encode(self, text: str) -> np.ndarray:
        """Symbols of each character; a line end is symbol 0."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        known = np.frombuffer(self.characters.encode("utf-32-le", "surrogatepass"), np.uint32)
        at = np.searchsorted(known, codes)
        found = np.zeros(len(codes), dtype=bool)
        inside = at < len(known)
        found[inside] = known[at[inside]] == codes[inside]
        symbols = np.where(found, at + 2, UNKNOWN)
        return np.where(codes == ord("\n"), END, symbols).astype(np.int32)

    def decode(self, symbols: list[int]) -> str:
        """Text of the symbols; symbol 0 is a line end."""
        table = "\n" + UNKNOWN_CHARACTER + self.characters
        return "".join(table[symbol] for symbol in symbols)


@dataclass(frozen=True)
class Corpus:
    """Lines of text in three splits."""

    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]
    origin: str

    def digest(self) -> str:
        """SHA-256 of the three splits, to tell whether a text is still the one it was."""
        splits = ("\n".join(lines) for lines in (self.train, self.valid, self.test))
        return hashlib.sha256("\0".join(splits).encode("utf-8", "surrogatepass")).hexdigest()


def load_corpus(
    source: TextSource,
    *,
    path: str | Path | None = None,
    data_dir: str | None = None,
    unk: Unk = "spelled",
) -> Corpus:
    """Penn Treebank, the text that comes with the package, or the user's file `path`.

    unk: "symbol" makes each `<unk>` one symbol, the unknown one; "spelled" leaves its letters.
    A single text is cut, at line ends where there are some, after 80 % and 90 % of its characters.
    """
    if (source == "file") != (path is not None):
        raise ValueError("path= belongs with source='file', and source='file' needs path=")
    if unk not in ("spelled", "symbol"):
        raise ValueError(f"unk={unk!r}: expected 'spelled' or 'symbol'")
    if source == "ptb":
        names = [f"ptb.{split}.txt" for split in ("train", "valid", "test")]
        texts = [_decoded(read("ptb", name, data_dir=data_dir), name) for name in names]
        # Every line of these files has a space at both ends, which no word needs.
        parts = [
            "\n".join(line.strip() for line in text.split("\n") if line.strip()) for text in texts
        ]
        origin = "ptb"
    elif source == "embedded":
        parts = _cut(resources.files("passnet.tasks").joinpath("embedded.txt").read_text("utf-8"))
        origin = "embedded"
    elif source == "file":
        assert path is not None
        parts = _cut(_decoded(_file(Path(path)), str(path)))
        origin = str(path)
    else:
        raise ValueError(f"source={source!r}: expected 'embedded', 'ptb' or 'file'")
    for split, text in zip(("training", "validation", "test"), parts, strict=True):
        if not text:
            raise DataError(f"{origin} is too short: nothing is left for the {split} split")
    if unk == "symbol":
        parts = [text.replace("<unk>", UNKNOWN_CHARACTER) for text in parts]
    train, valid, test = (tuple(text.split("\n")) for text in parts)
    return Corpus(train, valid, test, origin)


def _file(path: Path) -> bytes:
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the text {path}: {error.strerror or error}") from error


def _decoded(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not UTF-8 text (byte {error.start} is {content[error.start]:#04x}): "
            "convert it first"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _cut(text: str) -> list[str]:
    text = text.strip("\n")
    first = _boundary(text, len(text) * 8 // 10, len(text) * 9 // 10)
    second = _boundary(text, max(first, len(text) * 9 // 10), len(text))
    return [text[:first].strip("\n"), text[first:second].strip("\n"), text[second:].strip("\n")]


def _boundary(text: str, at: int, before: int) -> int:
    line_end = text.find("\n", at, before)
    return at if line_end < 0 else line_end + 1
