"""The accuracy rule: a computation may be off by what a plain one in the same precision is, twice.

rms(got - truth) <= 2 rms(reference - truth) + eps rms(truth), with a truth in double precision.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Errors(NamedTuple):
    """How far off two computations of the same numbers are, in root mean squares."""

    got: float
    reference: float
    scale: float
    """Of the numbers themselves."""
    eps: float
    """Of their precision."""

    @property
    def allowed(self) -> float:
        """What the first may be off by."""
        return 2 * self.reference + self.eps * self.scale

    @property
    def measurable(self) -> bool:
        """Whether the reference holds half of its digits: else anything would be allowed."""
        return self.reference <= math.sqrt(self.eps) * self.scale


def errors(got: Tensor, *, reference: Tensor, truth: Tensor) -> Errors:
    """Those of two tensors of one dtype."""
    off = (rms(one.to(truth.dtype) - truth) for one in (got, reference))
    return Errors(*off, scale=rms(truth), eps=torch.finfo(reference.dtype).eps)


def rms(values: Tensor) -> float:
    """Root mean square, in double precision."""
    wide = values.to(torch.complex128 if values.is_complex() else torch.float64)
    return wide.abs().square().mean().sqrt().item() if values.numel() else 0.0
