"""The number of threads and the neighbours in a batch change no bit."""

from __future__ import annotations

import pytest
import torch
from cpu_cases import Case

from passnet.ops.cpu import installed

if isinstance(installed(), str):
    pytest.skip(installed(), allow_module_level=True)

LARGE = [
    Case("after", batch=21, steps=30, units=130, rank=24),
    Case("before", batch=34, steps=20, units=97, rank=40, masks="each", tied=True),
    Case("lstm", batch=7, steps=30, units=130, rank=33, hold="units"),
    Case("after", "dense", batch=9, steps=10, units=150),
]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("case", LARGE, ids=str)
def test_one_and_two_threads_give_the_same_bits(case: Case, threads) -> None:
    live, fixed = case.tensors()
    live = {name: tensor.float() for name, tensor in live.items()}
    fixed = {name: tensor.float() for name, tensor in fixed.items()}
    found = []
    for count in (1, 2, 3, 2):
        threads(count)
        found.append(case.run(live, fixed, "cpu"))
    for other in found[1:]:
        for name, value in found[0].items():
            if case.structure != "dense" or "weight" not in name:
                assert torch.equal(other[name], value), name


def test_a_sequence_does_not_see_its_neighbours() -> None:
    case = Case("after", batch=23, steps=4, units=50, rank=6)
    live, fixed = case.tensors()
    whole = case.run(live, fixed, "cpu")
    for first, stop in ((0, 9), (9, 23), (5, 12)):
        part = dict(live)
        part["drive"] = live["drive"][:, :, first:stop]
        part["initial"] = live["initial"][first:stop]
        alone = Case("after", batch=stop - first, steps=4, units=50, rank=6)
        got = alone.run(part, fixed, "cpu")
        assert torch.equal(got["states"], whole["states"][:, first:stop])
