"""Seeing how a layer asks for its scans, and having it ask as if for the first time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import passnet.layers.recurrent
from passnet.ops import gru_backends, lstm_backends, scan_op
from passnet.ops.backend import choose
from passnet.ops.cuda.tape import Tape
from passnet.ops.kinds import Kinds


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


def forget_calls(monkeypatch) -> None:
    """Ops remember no calls that were made before."""
    for backend in (gru_backends()[0], lstm_backends()[0]):
        monkeypatch.setattr(backend._op, "_kinds", Kinds(scan_op.MOST_KINDS))


@contextmanager
def the_long_way() -> Iterator[None]:
    """Calls of layers are made as if they had never been made before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kinds, "of", lambda *_: None)
        yield
