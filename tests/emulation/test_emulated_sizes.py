"""Other numbers of steps and sequences take the kernels that are there."""

from __future__ import annotations

import pytest
import torch
from spying import forget_calls

import passnet
from passnet.ops import gru_backends, lstm_backends
from passnet.ops.cuda import engine, large

LRD = passnet.LowRankPlusDiagonal
LAYERS = {
    "reset after": (passnet.GRU, 24, {"matrix": LRD(4)}),
    "reset before, tied": (passnet.GRU, 24, {"matrix": LRD(4, tied=True), "reset": "before"}),
    "lstm": (passnet.LSTM, 24, {"matrix": passnet.LowRank(4)}),
    "dense": (passnet.GRU, 20, {}),
    "multiplied out": (passnet.GRU, 64, {"matrix": LRD(40)}),
    "dropout and zoneout": (
        passnet.LSTM,
        24,
        {"matrix": LRD(4), "dropout_state": 0.5, "zoneout": 0.1},
    ),
    "over the chip": (passnet.GRU, 40, {"matrix": LRD(6)}),
    "lstm over the chip": (passnet.LSTM, 40, {"matrix": LRD(6, tied=True)}),
}
SIZES = (3, 2), (1, 1), (4, 5), (2, 19)
"""Steps and sequences."""


def trained(rnn, steps: int, batch: int, *, symbols: bool, lengths: bool) -> None:
    """A pass forwards and one backwards."""
    x = torch.zeros(steps, batch, dtype=torch.long) if symbols else torch.ones(steps, batch, 3)
    ends = [1 + index % steps for index in range(batch)] if lengths else None
    rnn(x, lengths=ends)[0].sum().backward()


@pytest.mark.parametrize("symbols", [False, True], ids=["features", "symbols"])
@pytest.mark.parametrize("lengths", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", LAYERS)
def test_other_steps_and_sequences_compile_nothing(emulator, monkeypatch, name, symbols, lengths):
    kind, units, options = LAYERS[name]
    chip, asked = emulator(processors=12), set()
    make = chip.kernel

    def kernel(source, entry, *, options, shared):
        asked.add((source, entry, options, shared))
        return make(source, entry, options=options, shared=shared)

    monkeypatch.setattr(chip, "kernel", kernel)
    monkeypatch.setattr(engine, "refuses_device", lambda *_: None)
    for backend in (*gru_backends(), *lstm_backends()):
        if backend.name == "cuda":
            monkeypatch.setattr(backend._engine, "_chip_of", lambda _: chip)
            if "over the chip" in name:
                monkeypatch.setattr(backend._engine, "_family_of", lambda *_: large)
    forget_calls(monkeypatch)
    rnn = kind(3, units, backend="cuda", **options)
    first, *others = SIZES
    trained(rnn, *first, symbols=symbols, lengths=lengths)
    compiled = set(asked)
    assert len({entry for _, entry, *_ in compiled}) >= 3
    for steps, batch in others:
        trained(rnn, steps, batch, symbols=symbols, lengths=lengths)
        assert asked == compiled, f"{steps} steps of {batch} sequences"
