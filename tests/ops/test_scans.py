"""Every backend of every scan against textbook loops, outputs and all gradients."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from accuracy import assert_accurate, assert_all_accurate
from scan_calls import (
    Case,
    backend_names,
    converted,
    gradients,
    grid,
    make_call,
    plain,
    run_by_name,
)
from structures import MAIN, STRUCTURES

from passnet.ops import chunks

GRID = grid(*MAIN)
OTHERS = [
    Case(cell, name, reset, masks="each", hold="units")
    for name in STRUCTURES
    if name not in MAIN
    for cell, reset in (("gru", "before"), ("gru", "after"), ("lstm", "after"))
]
AWKWARD = [
    Case(cell, "diagonal", reset, masks="each", hold="ends", steps=steps, batch=batch)
    for cell, reset in (("gru", "before"), ("gru", "after"), ("lstm", "after"))
    for steps, batch in ((1, 1), (1, 3), (6, 1))
]


def with_backends(cases):
    return pytest.mark.parametrize(
        ("case", "backend"),
        [
            pytest.param(case, name, id=f"{case} {name}")
            for case in cases
            for name in backend_names(case.cell, case.structure)
        ],
    )


def judge(call, backend: str, dtype: torch.dtype) -> None:
    """The rule on outputs and gradients; the numbers of `call` are exact in `dtype`."""
    narrow, same, wide = (converted(call, d) for d in (dtype, dtype, torch.float64))
    assert_all_accurate(
        gradients(run_by_name(narrow, backend), narrow),
        reference=gradients(plain(same), same),
        truth=gradients(plain(wide), wide),
    )


@with_backends([*GRID, *OTHERS, *AWKWARD])
def test_outputs_and_gradients(case, backend):
    judge(make_call(case, torch.float32), backend, torch.float32)


@with_backends(
    [
        Case(cell, "diagonal tied", reset, masks="one", hold="ends", inner_bias=inner)
        for cell, reset, inner in (
            ("gru", "before", False),
            ("gru", "after", True),
            ("lstm", "after", False),
        )
    ]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision(case, backend, dtype):
    judge(make_call(case, dtype), backend, dtype)


@pytest.mark.parametrize("elements", [1, 36, 40])
@pytest.mark.parametrize(
    "case",
    [
        Case("gru", "diagonal", "before", masks="each", hold="units", steps=5),
        Case("gru", "diagonal", "after", masks="each", hold="units", inner_bias=True, steps=5),
        Case("lstm", "diagonal", masks="each", hold="units", steps=5),
    ],
    ids=str,
)
def test_long_sequences_are_taken_in_chunks(case, elements, monkeypatch):
    """With small chunks a short sequence has the seams of a long one: 1 step each, or 2."""
    monkeypatch.setitem(chunks._ELEMENTS, "cpu", elements)
    judge(make_call(case, torch.float32), "eager", torch.float32)


def test_chunks_cover_every_step_once_from_the_end():
    for steps in (1, 2, 7, 300_000):
        ranges = [range(steps)[c] for c in chunks.chunks(steps, 3, "cpu")]
        assert [k for r in reversed(ranges) for k in r] == list(range(steps))
        assert all(len(r) for r in ranges)


@with_backends([Case("gru", "diagonal", "before"), Case("gru", "dense"), Case("lstm", "diagonal")])
def test_strides_do_not_matter(case, backend):
    """Transposed and expanded inputs give what their contiguous copies give."""
    call = make_call(case, torch.float32)
    live, _, _ = call.flatten()
    packed = gradients(run_by_name(call, backend), call)
    scattered = dataclasses.replace(
        call,
        source=call.drive.detach().permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        factors=tuple(f.detach().mT.contiguous().mT for f in call.factors[:2]) + call.factors[2:],
        initial=call.initial.detach()[:1].expand_as(call.initial),
    )
    whole = dataclasses.replace(call, initial=scattered.initial.contiguous())
    for each in (scattered, whole):
        for tensor in each.flatten()[0]:
            tensor.requires_grad_()
    assert not scattered.drive.is_contiguous()
    got = gradients(run_by_name(scattered, backend), scattered)
    wide = converted(whole, torch.float64)
    assert_all_accurate(
        got,
        reference=gradients(run_by_name(whole, backend), whole),
        truth=gradients(plain(wide), wide),
    )
    assert packed.keys() == got.keys()
    assert len(live) == len(scattered.flatten()[0])


@with_backends([Case("gru", "low-rank", "before", hold="ends"), Case("lstm", "low-rank")])
def test_gradients_of_some_outputs_only(case, backend):
    """A loss on the last state alone, and for the LSTM on one of the two outputs alone."""
    call = make_call(case, torch.float32)
    for index in range(len(plain(call))):
        found = []
        for run, dtype in ((run_by_name, None), (plain, torch.float32), (plain, torch.float64)):
            again = converted(call, dtype or torch.float32)
            outputs = run(again, backend) if dtype is None else run(again)
            loss = outputs[index][-1].square().sum()
            grads = torch.autograd.grad(loss, again.flatten()[0], allow_unused=True)
            found.append(grads)
        for got, reference, truth in zip(*found, strict=True):
            assert_accurate(got, reference=reference, truth=truth)


@with_backends([Case("gru", "dense", hold="ends"), Case("lstm", "dense", hold="ends")])
def test_a_held_state_survives_bit_for_bit(case, backend):
    call = make_call(case, torch.float32)
    ones = torch.ones(case.steps, case.batch, 1)
    holds = {"hold": ones} | ({"hold_cell": ones} if case.cell == "lstm" else {})
    call = dataclasses.replace(call, **holds)
    starts = call.flatten()[0][1 : 1 + len(plain(call))]
    for output, start in zip(run_by_name(call, backend), starts, strict=True):
        assert torch.equal(output, start.expand_as(output))
