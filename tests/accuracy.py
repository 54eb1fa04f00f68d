"""The accuracy rule over many tensors: scans and kernels beside plain computations.

Where few numbers would leave it to luck, draws of a case are pooled before they are judged; a case
that is over the rule in one draw may be judged by the medians of many. CONTRIBUTING.md says what is
compared by another tolerance, and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median

import torch
from torch import Tensor

from passnet.bench.accuracy import errors

Numbers = Mapping[str, Tensor]
MANY = 15
"""Draws of a case that is over the rule in one."""


def measured(
    got: Tensor, *, reference: Tensor, truth: Tensor, name: str = ""
) -> tuple[float, float]:
    """The error rms(got - truth), and the 2 rms(reference - truth) + eps rms(truth) it may have.

    `truth` is in double precision; `reference` is somebody else's plain computation in the dtype of
    `got`. A reference that is itself far from the truth would let anything pass, so it must hold
    half of its digits.
    """
    assert truth.dtype in (torch.float64, torch.complex128), f"{name}: the truth is {truth.dtype}"
    assert got.dtype == reference.dtype, f"{name}: {got.dtype} against {reference.dtype}"
    assert got.shape == reference.shape == truth.shape, (
        f"{name}: shapes {tuple(got.shape)}, {tuple(reference.shape)}, {tuple(truth.shape)}"
    )
    off = errors(got, reference=reference, truth=truth)
    assert off.measurable, f"{name}: the reference itself is off by {off.reference}"
    return off.got, off.allowed


def assert_accurate(got: Tensor, *, reference: Tensor, truth: Tensor, name: str = "") -> None:
    """rms(got - truth) <= 2 rms(reference - truth) + eps rms(truth)."""
    error, allowed = measured(got, reference=reference, truth=truth, name=name)
    assert error <= allowed, f"{name}: error {error:.3g}, allowed {allowed:.3g}"


def assert_all_accurate(got: Numbers, *, reference: Numbers, truth: Numbers) -> None:
    """The rule for every named tensor; the names must agree."""
    assert got.keys() == reference.keys() == truth.keys()
    for name, value in got.items():
        assert_accurate(value, reference=reference[name], truth=truth[name], name=name)


def ratios(got: Numbers, *, reference: Numbers, truth: Numbers) -> dict[str, float]:
    """The error of every named tensor over what is allowed: accurate up to one."""
    assert got.keys() == reference.keys() == truth.keys()
    found = {}
    for name, value in got.items():
        error, allowed = measured(value, reference=reference[name], truth=truth[name], name=name)
        if error == 0:
            found[name] = 0.0
        else:  # NaN is above one too
            found[name] = error / allowed if error > 0 and allowed > 0 else math.inf
    return found


def pooled(draws: Iterable[tuple[Numbers, Numbers, Numbers]]) -> list[dict[str, Tensor]]:
    """[got, reference, truth] of one case, each tensor with all of its draws.

    The rule compares two errors: with few numbers in them that would be a matter of luck.
    """
    sides = zip(*draws, strict=True)
    return [{name: torch.stack([one[name] for one in side]) for name in side[0]} for side in sides]


def worst(found: Mapping[str, float]) -> tuple[float, str]:
    """The largest of the ratios, and whose it is."""
    name = max(found, key=lambda key: found[key])
    return found[name], name


def worst_of_many(draws: Iterable[Mapping[str, float]]) -> tuple[float, str]:
    """`worst` of the medians over many draws, for a case that is over the rule in one.

    With a rank of one a single rounding reaches all units, and with large weights roundings grow
    from step to step, by which of the two errors is a matter of luck in any one draw, and a few
    such draws would make up all of a mean.
    """
    many = list(draws)
    assert len(many) >= MANY, f"{len(many)} draws are not many"
    return worst({name: median(draw[name] for draw in many) for name in many[0]})


def fair(first: Mapping[str, float], others: Iterable[Mapping[str, float]]) -> tuple[float, str]:
    """`worst` of one draw, or of many others, which are drawn only where that one is over."""
    ratio, name = worst(first)
    return (ratio, name) if ratio <= 1 else worst_of_many(others)
