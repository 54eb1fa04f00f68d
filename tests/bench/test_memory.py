"""Peak memory of work on a CPU."""

from __future__ import annotations

import pytest
import torch

from passnet.bench import memory
from passnet.bench.memory import peak_bytes

MIB = 2**20


@pytest.mark.skipif(not memory._FORGET.exists(), reason="only Linux tells")
def test_what_is_held_at_once_counts_and_what_was_there_does_not():
    before = torch.ones(64 * MIB)
    del before
    there = torch.ones(16 * MIB)

    def work():
        for _ in range(3):  # one after the other: the room of one
            torch.ones(16 * MIB)
        return torch.ones(8 * MIB), torch.ones(8 * MIB)

    assert len(there) == 16 * MIB
    work()
    found = peak_bytes(work, "cpu")
    assert found is not None and 60 * MIB < found < 80 * MIB


@pytest.mark.skipif(not memory._FORGET.exists(), reason="only Linux tells")
def test_work_that_fails_does_not_pass_for_a_system_that_does_not_tell():
    def work():
        raise KeyError("a fault of the work")

    with pytest.raises(KeyError, match="a fault of the work"):
        peak_bytes(work, "cpu")


def test_where_nothing_tells_there_is_no_number(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_FORGET", tmp_path / "none" / "clear_refs")
    assert peak_bytes(lambda: None, "cpu") is None
