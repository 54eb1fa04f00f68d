"""The accuracy rule itself: what it lets through, and that it can fail."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_accurate, assert_all_accurate

TRUTH = torch.linspace(-1, 1, 101, dtype=torch.float64)
ERROR = 1e-6 * torch.where(torch.arange(101) % 2 == 0, 1.0, -1.0)
REFERENCE = TRUTH.float() + ERROR


def test_twice_the_reference_is_allowed_and_three_times_is_not():
    assert_accurate(TRUTH.float(), reference=TRUTH.float(), truth=TRUTH)
    assert_accurate(TRUTH.float() + 2 * ERROR, reference=REFERENCE, truth=TRUTH)
    with pytest.raises(AssertionError, match=r"error \S+, allowed 2\.\d+e-06"):
        assert_accurate(TRUTH.float() + 3 * ERROR, reference=REFERENCE, truth=TRUTH)


def test_nan_is_never_accurate():
    broken = TRUTH.float()
    broken[3] = float("nan")
    with pytest.raises(AssertionError, match="error nan"):
        assert_accurate(broken, reference=REFERENCE, truth=TRUTH)
    with pytest.raises(AssertionError, match="the reference itself"):
        assert_accurate(REFERENCE, reference=broken, truth=TRUTH)


def test_a_wrong_reference_cannot_excuse_a_wrong_result():
    wrong = TRUTH.float() + 0.1
    with pytest.raises(AssertionError, match="the reference itself is off"):
        assert_accurate(wrong, reference=wrong, truth=TRUTH)


def test_what_must_agree_first():
    with pytest.raises(AssertionError, match="the truth is"):
        assert_accurate(REFERENCE, reference=REFERENCE, truth=TRUTH.float())
    with pytest.raises(AssertionError, match=r"float16 against .*float32"):
        assert_accurate(REFERENCE.half(), reference=REFERENCE, truth=TRUTH)
    with pytest.raises(AssertionError, match="shapes"):
        assert_accurate(REFERENCE[:, None], reference=REFERENCE, truth=TRUTH)
    with pytest.raises(AssertionError):
        assert_all_accurate({"a": REFERENCE}, reference={}, truth={"a": TRUTH})
