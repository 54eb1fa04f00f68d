"""The accuracy rule itself: what it lets through, and that it can fail."""

from __future__ import annotations

import pytest
import torch
from accuracy import (
    MANY,
    assert_accurate,
    assert_all_accurate,
    fair,
    pooled,
    ratios,
    worst,
    worst_of_many,
)

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


def judged(got, reference=REFERENCE, truth=TRUTH):
    return ratios({"a": got}, reference={"a": reference}, truth={"a": truth})["a"]


def test_ratios_say_the_same():
    assert judged(TRUTH.float() + 2 * ERROR) <= 1 < judged(TRUTH.float() + 3 * ERROR) < 2
    assert judged(TRUTH.float() * float("nan")) == judged(TRUTH.float() / 0) == float("inf")
    zero = torch.zeros(5)
    assert judged(zero, zero, zero.double()) == 0
    assert judged(zero + 1e-30, zero, zero.double()) == float("inf")
    wrong = TRUTH.float() + 0.1
    with pytest.raises(AssertionError, match="the reference itself is off"):
        judged(wrong, wrong)
    with pytest.raises(AssertionError):
        ratios({"a": REFERENCE}, reference={}, truth={"a": TRUTH})


def test_a_pooled_draw_weighs_as_its_errors_do():
    def draw(times: float):
        return {"a": TRUTH.float() + times * ERROR}, {"a": REFERENCE}, {"a": TRUTH}

    got, reference, truth = pooled(map(draw, (3, 0, 0)))
    assert got["a"].shape == (3, 101)
    assert_all_accurate(got, reference=reference, truth=truth)
    got, reference, truth = pooled(map(draw, (3, 0, 3)))
    assert worst(ratios(got, reference=reference, truth=truth))[0] > 1


def test_only_a_draw_over_the_rule_is_followed_by_many():
    def others(*found: float):
        return ({"a": ratio, "b": 0.2} for ratio in found)

    assert fair({"a": 0.1, "b": 1.0}, others()) == (1.0, "b")
    over = {"a": 0.1, "b": 1.1}
    few = MANY // 2
    assert fair(over, others(*[9.0] * few, *[0.5] * (MANY - few))) == (0.5, "a")
    assert fair(over, others(*[9.0] * (MANY - few), *[0.5] * few)) == (9.0, "a")
    with pytest.raises(AssertionError, match="are not many"):
        worst_of_many(others(0.5))
