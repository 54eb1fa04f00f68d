"""Seeing how a layer asks for its scans, and having it ask as if for the first time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import passnet.layers.recurrent
from passnet.ops.backend import choose
from passnet.ops.cuda.tape import Tape


def record_scans(monkeypatch) -> list:
    """A list that every scan of every layer is appended to from now on, with masks and holds."""
    calls = []

    def recording(backends, wanted, call):
        calls.append(call)
        return choose(backends, wanted, call)

    monkeypatch.setattr(passnet.layers.recurrent, "choose", recording)
    return calls


def record_tapes(monkeypatch) -> list[Tape]:
    """A list that every pass which is done again is appended to from now on."""
    played, play = [], Tape.__call__

    def playing(self, given):
        played.append(self)
        return play(self, given)

    monkeypatch.setattr(Tape, "__call__", playing)
    return played


@contextmanager
def the_long_way() -> Iterator[None]:
    """Calls of layers are made as if they had never been made before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passnet.layers.recurrent, "again", lambda *_: None)
        yield
