"""The one accuracy rule: every approximate comparison of the suite goes through here."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def rms(values: Tensor) -> float:
    """Root mean square, in double precision."""
    wide = values.to(torch.complex128 if values.is_complex() else torch.float64)
    return wide.abs().square().mean().sqrt().item() if values.numel() else 0.0


def assert_accurate(got: Tensor, *, reference: Tensor, truth: Tensor, name: str = "") -> None:
    """rms(got - truth) <= 2 rms(reference - truth) + eps rms(truth).

    `truth` is in double precision; `reference` is somebody else's plain computation in the dtype of
    `got`. A reference that is itself far from the truth would let anything pass, so it must hold
    half of its digits.
    """
    assert truth.dtype in (torch.float64, torch.complex128), f"{name}: the truth is {truth.dtype}"
    assert got.dtype == reference.dtype, f"{name}: {got.dtype} against {reference.dtype}"
    assert got.shape == reference.shape == truth.shape, (
        f"{name}: shapes {tuple(got.shape)}, {tuple(reference.shape)}, {tuple(truth.shape)}"
    )
    eps, scale = torch.finfo(got.dtype).eps, rms(truth)
    baseline = rms(reference.to(truth.dtype) - truth)
    assert baseline <= math.sqrt(eps) * scale, f"{name}: the reference itself is off by {baseline}"
    error = rms(got.to(truth.dtype) - truth)
    allowed = 2 * baseline + eps * scale
    assert error <= allowed, f"{name}: error {error:.3g}, allowed {allowed:.3g}"


def assert_all_accurate(
    got: Mapping[str, Tensor], *, reference: Mapping[str, Tensor], truth: Mapping[str, Tensor]
) -> None:
    """The rule for every named tensor; the names must agree."""
    assert got.keys() == reference.keys() == truth.keys()
    for name, value in got.items():
        assert_accurate(value, reference=reference[name], truth=truth[name], name=name)
