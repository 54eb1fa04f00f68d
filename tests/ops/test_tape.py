"""Passes that are done again from what they allocated and launched."""

from __future__ import annotations

import ctypes
import weakref

import pytest
import torch

from passnet.ops.cuda.compile import CompileError
from passnet.ops.cuda.launches import Launches, recorded
from passnet.ops.cuda.tape import record


def floats(tensor):
    return (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())


class Adds(Launches):
    """out = a + factor * b, past PyTorch, as a kernel does it; b may be missing."""

    def __init__(self) -> None:
        self.places = []

    def start(self, grid, threads, arguments, cooperative):
        a, b, out, factor = arguments
        self.places.append((grid, threads, cooperative))
        for index, value in enumerate(floats(a)):
            floats(out)[index] = value + (0 if b is None else factor * floats(b)[index])


kernel = Adds()


def add(a, b, factor, *, threads=32, cooperative=False):
    out = torch.empty_like(a)
    kernel.launch((a.numel(), 1, 1), threads, [a, b, out, factor], cooperative=cooperative)
    return out


def tensors(*starts):
    return [torch.arange(4.0) + start for start in starts]


def two_launches(a, b):
    return [add(add(a, b, 2), None, 0), add(a, b, 3, threads=64)]


def test_other_numbers_take_the_same_way():
    a, b = tensors(1, 10)
    results, tape = record([a, b], lambda: two_launches(a, b))
    assert torch.equal(results[0], a + 2 * b) and torch.equal(results[1], a + 3 * b)
    recorded_places, kernel.places = kernel.places, []
    others = tensors(5, -3)
    again = tape(others)
    assert torch.equal(again[0], others[0] + 2 * others[1])
    assert torch.equal(again[1], others[0] + 3 * others[1])
    assert kernel.places == recorded_places
    assert recorded_places == [((4, 1, 1), 32, False)] * 2 + [((4, 1, 1), 64, False)]
    assert torch.equal(results[0], a + 2 * b), "results are new each time"
    assert not {t.data_ptr() for t in again} & {t.data_ptr() for t in (*results, *others)}


def test_what_is_given_may_be_written_and_returned():
    a, b = tensors(1, 10)

    def work():
        kernel.launch((1, 1, 1), 32, [a, b, a, 1])
        return [a]

    _, tape = record([a, b], work)
    others = tensors(2, 3)
    (found,) = tape(others)
    assert found is others[0] and torch.equal(found, torch.arange(4.0) * 2 + 5)


def with_a_sum(a, b):
    return [add(a, b, 1).add_(1)]


def with_somebody_elses(a, b):
    return [add(a, OTHER, 1)]


def that_launches_nothing(a, b):
    return [torch.empty_like(a)]


def with_a_copy(a, b):
    return [add(a.clone(), b, 1)]


def over_the_whole_chip(a, b):
    return [add(a, b, 1, cooperative=True)]


OTHER = torch.ones(4)


@pytest.mark.parametrize(
    "work",
    [with_a_sum, with_somebody_elses, that_launches_nothing, with_a_copy, over_the_whole_chip],
)
def test_what_does_more_than_launch_has_no_tape(work):
    a, b = tensors(1, 10)
    results, tape = record([a, b], lambda: work(a, b))
    assert tape is None and results[0].shape == a.shape


def test_where_launches_cannot_be_prepared_there_is_no_tape(monkeypatch):
    def full(launches):
        raise CompileError("CUDA driver error 2: out of memory")

    monkeypatch.setattr(Adds, "together", full)
    a, b = tensors(1, 10)
    results, tape = record([a, b], lambda: two_launches(a, b))
    assert tape is None and torch.equal(results[1], a + 3 * b)


def test_one_tensor_given_twice_has_no_tape():
    (a,) = tensors(1)
    assert record([a, a], lambda: [add(a, a, 1)])[1] is None


def test_a_tape_keeps_no_tensor():
    a, b = tensors(1, 10)
    results, tape = record([a, b], lambda: two_launches(a, b))
    kept = [weakref.ref(tensor) for tensor in (a, b, *results)]
    del a, b, results
    assert [ref() for ref in kept] == [None] * len(kept) and tape is not None


def test_a_record_within_a_record_is_its_own():
    a, b = tensors(1, 10)
    with recorded() as outer:
        add(a, b, 1)
        with recorded() as inner:
            add(a, b, 2)
        add(a, b, 3)
    assert [launch.arguments[-1] for launch in outer] == [1, 3]
    assert [launch.arguments[-1] for launch in inner] == [2]
    add(a, b, 1)
    assert len(outer) == 2
