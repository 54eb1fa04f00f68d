"""The number of threads and the neighbours in a batch change no bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cpu_cases import Case, cast

from passnet.ops.cpu import installed

if isinstance(installed(), str):
    pytest.skip(installed(), allow_module_level=True)

LARGE = [
    Case("after", batch=21, steps=30, units=130, rank=24),
    Case("before", batch=34, steps=20, units=97, rank=40, masks="each", tied=True),
    Case("lstm", batch=7, steps=30, units=130, rank=33, hold="units"),
    Case("after", "dense", batch=9, steps=10, units=150),
    Case("after", batch=21, steps=30, units=130, inputs="features with gradients", width=70),
    Case("lstm", batch=21, steps=30, units=97, rank=33, inputs="symbols", width=40),
]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("case", LARGE, ids=str)
def test_one_and_two_threads_give_the_same_bits(case: Case, threads) -> None:
    live, fixed = case.tensors()
    live, fixed = cast(live, torch.float32), cast(fixed, torch.float32)
    found = []
    for count in (1, 2, 3, 2):
        threads(count)
        found.append(case.run(live, fixed, "cpu"))
    for other in found[1:]:
        for name, value in found[0].items():
            # Of these PyTorch's products are a part, which change with its threads.
            if (case.structure != "dense" and case.inputs != "symbols") or "weight" not in name:
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


def test_a_sequence_of_inputs_does_not_see_its_neighbours() -> None:
    case = Case("before", batch=23, steps=4, units=50, rank=6, inputs="features", width=20)
    live, fixed = case.tensors()
    whole = case.run(live, fixed, "cpu")
    for first, stop in ((0, 9), (9, 23), (5, 12)):
        part = live | {"initial": live["initial"][first:stop]}
        alone = replace(case, batch=stop - first)
        got = alone.run(part, fixed | {"x": fixed["x"][:, first:stop]}, "cpu")
        assert torch.equal(got["states"], whole["states"][:, first:stop])
