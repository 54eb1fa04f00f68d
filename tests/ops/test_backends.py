"""Choosing a backend: fastest first, by name honoured or refused, always with a reason."""

from __future__ import annotations

import pytest
import torch
from scan_calls import Case, make_call, run_on

import passnet
from passnet.ops import BackendRefused, gru_backends, lstm_backends
from passnet.ops.backend import Backend, choose


class Fake(Backend):
    def __init__(self, name: str, reason: str | None = None) -> None:
        self.name, self.reason = name, reason

    def refuses(self, call):
        return self.reason

    def run(self, call):
        return self.name


FAST, FUSSY, SLOW = Fake("fast"), Fake("fussy", "it is not in the mood"), Fake("slow")


def test_auto_takes_the_first_that_accepts():
    assert choose((FAST, SLOW), "auto", None) is FAST
    assert choose((FUSSY, SLOW), "auto", None) is SLOW


def test_a_name_is_honoured_even_when_a_faster_one_would_accept():
    assert choose((FAST, SLOW), "slow", None) is SLOW


def test_a_name_is_refused_with_the_backends_own_reason():
    with pytest.raises(BackendRefused, match="'fussy' cannot run this call: it is not in the mood"):
        choose((FUSSY, SLOW), "fussy", None)


def test_when_nobody_accepts_every_reason_is_given():
    other = Fake("other", "it is asleep")
    with pytest.raises(BackendRefused, match="fussy: it is not in the mood; other: it is asleep"):
        choose((FUSSY, other), "auto", None)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"backend='quick' is unknown.*'auto', 'fast', 'slow'"):
        choose((FAST, SLOW), "quick", None)


@pytest.mark.parametrize("backends", [gru_backends, lstm_backends])
def test_the_plain_loop_serves_everything_and_comes_last(backends):
    names = [backend.name for backend in backends()]
    assert len(set(names)) == len(names)
    assert names[-2:] == ["eager", "reference"]


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_scans_by_name(cell):
    call = make_call(Case(cell, "dense"))
    for name in ("auto", "eager", "reference"):
        assert run_on(name, call)[0].shape == call.drive.shape[1:]
    with pytest.raises(ValueError, match="backend='abacus' is unknown"):
        run_on("abacus", call)


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_a_layer_explains_and_uses_its_backends(layer, monkeypatch):
    module = layer(3, 4)
    x = torch.randn(5, 2, 3)
    names = [backend.name for backend in module._backends()]
    for given in (x, x[:, 0]):
        reasons = module.explain_backends(given)
        assert list(reasons) == names
        assert reasons["eager"] is None and reasons["reference"] is None
    monkeypatch.setattr(module, "_backends", lambda: (FUSSY, *layer._backends(module)))
    assert module.explain_backends(x, lengths=[5, 1])["fussy"] == "it is not in the mood"
    module.backend = "fussy"
    with pytest.raises(BackendRefused, match="not in the mood"):
        module(x)


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_a_layer_runs_the_backend_it_was_given(layer, monkeypatch):
    used = []

    def spying(backends, wanted, call):
        found = choose(backends, wanted, call)
        used.append(found.name)
        return found

    monkeypatch.setattr("passnet.layers.recurrent.choose", spying)
    for name in ("eager", "reference"):
        layer(3, 4, 2, backend=name)(torch.randn(5, 2, 3))
    assert used == ["eager", "eager", "reference", "reference"]
    with pytest.raises(ValueError, match=r"backend='abacus' is unknown: choose one of 'auto'"):
        layer(3, 4, backend="abacus")
