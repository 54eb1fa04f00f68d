"""Steps of a stream share their work out among threads that are awake, and change no bit by it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import passnet
from passnet.config.matrix import Dense, LowRank, LowRankPlusDiagonal
from passnet.ops.cpu import installed, library

LIBRARY = installed()
if isinstance(LIBRARY, str):
    pytest.skip(LIBRARY, allow_module_level=True)

WIDTH, UNITS = 9, 1001
"""So many units that a step is worth several threads, and none of the strips ends where they do."""
ASLEEP = 0.02
"""Seconds after which no thread of a team is counted on."""
_Run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Team = ctypes.CFUNCTYPE(None, _Run, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)


@pytest.fixture
def team():
    """What stands in for an OpenMP runtime, and the numbers of threads that it was asked for."""
    asked = []

    def lead(run, given, threads, flags):
        asked.append(threads)
        run(given)

    stand_in = _Team(lead)
    LIBRARY._loaded.passnet_use_team(stand_in)
    yield asked
    LIBRARY._loaded.passnet_use_team(None)
    library._share_threads(LIBRARY._loaded)


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def _layers():
    for matrix in (LowRankPlusDiagonal(64), LowRank(70, tied=True), Dense()):
        yield passnet.GRU(WIDTH, UNITS, matrix=matrix)
        yield passnet.GRU(WIDTH, UNITS, matrix=matrix, reset="before")
        yield passnet.LSTM(WIDTH, UNITS, matrix=matrix)


def _stream(layer, inputs, state) -> list[torch.Tensor]:
    """All outputs and the last state."""
    found = []
    for x in inputs:
        output, state = layer.step(x, state)
        found.append(output)
    return [*found, *layer._split(state)]


@pytest.mark.parametrize("standing_in", [False, True])
@torch.no_grad()
def test_threads_change_no_bit(standing_in: bool, threads, request) -> None:
    asked, seen = request.getfixturevalue("team") if standing_in else [], set()
    for layer in _layers():
        for inputs in (torch.randn(14, 2, WIDTH), torch.randint(WIDTH, (14, 1))):
            threads(1)
            start = layer(torch.zeros_like(inputs[:1]))[1]
            alone = _stream(layer, inputs, start)
            assert not asked
            for count in (2, 3):
                threads(count)
                found = _stream(layer, inputs, start)
                assert all(map(torch.equal, found, alone))
                assert set(asked) <= {count}
                seen |= set(asked)
                asked.clear()
    assert seen == ({2, 3} if standing_in else set())


@torch.no_grad()
def test_threads_that_may_sleep_are_not_asked_for(team, threads) -> None:
    layer = passnet.GRU(WIDTH, UNITS, matrix=LowRankPlusDiagonal(64))
    x, state = torch.randn(1, WIDTH), torch.randn(1, 1, UNITS)
    threads(2)

    def steps(count: int, *, pause: float = 0.0) -> int:
        team.clear()
        for _ in range(count):
            time.sleep(pause)
            layer.step(x, state)
        return len(team)

    time.sleep(ASLEEP)
    assert steps(8) == 0, "nobody knows yet that this is a stream"
    assert steps(200) > 0
    assert steps(12, pause=ASLEEP) == 0
    threads(1)
    assert steps(200) == 0


@torch.no_grad()
def test_a_small_step_takes_one_thread(team, threads) -> None:
    layer = passnet.GRU(WIDTH, 128, matrix=LowRankPlusDiagonal(24))
    x, state = torch.randn(1, WIDTH), torch.randn(1, 1, 128)
    threads(8)
    for _ in range(100):
        layer.step(x, state)
    assert not team


@torch.no_grad()
def test_a_team_is_called_whole(team, threads) -> None:
    """One that is called for fewer ends its other threads, and PyTorch starts them again."""
    layer = passnet.GRU(WIDTH, UNITS, matrix=LowRankPlusDiagonal(64))
    x, state = torch.randn(1, WIDTH), torch.randn(1, 1, UNITS)
    threads(5)
    for steps, asked in ((1, []), (3, [5])):  # worth one thread, and two
        layer(torch.randn(steps, 4, WIDTH))
        assert team == asked
    for count, asked in ((5, {5}), (16, set())):  # a step worth three
        threads(count)
        team.clear()
        for _ in range(200):
            layer.step(x, state)
        assert set(team) == asked


_FORKED = f"""
import os, signal, torch, passnet
torch.set_num_threads(2)
layer = passnet.GRU({WIDTH}, {UNITS}, matrix=passnet.LowRank(64))
x, state = torch.randn(1, {WIDTH}), torch.randn(1, 1, {UNITS})
with torch.no_grad():
    def work():
        for _ in range(100):
            output, _ = layer.step(x, state)
        return output, layer(torch.ones(5, 4, {WIDTH}))[0]
    expected = work()
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(not all(map(torch.equal, work(), expected)))
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_does_not_wait_for_a_team_it_has_not() -> None:
    source = Path(passnet.__file__).parents[1]
    subprocess.run([sys.executable, "-c", _FORKED], check=True, cwd=source, timeout=120)
