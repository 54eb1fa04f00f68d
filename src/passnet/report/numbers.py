"""How scores, counts and times are written, the same in every table."""

from __future__ import annotations

import math

from passnet.report.groups import Summary

ABSENT = "\u2013"


def score(metric: str, value: float | None, *, digits: int | None = None) -> str:
    """A score as people read it; accuracies in percent. `digits` fixes the decimals."""
    if value is None:
        return ABSENT
    if metric.startswith("accuracy"):
        return f"{100 * value:.{2 if digits is None else digits}f} %"
    if metric == "error_percent":
        return f"{value:.{2 if digits is None else digits}f} %"
    if metric.startswith(("perplexity", "bits")):
        return f"{value:.{3 if digits is None else digits}f}"
    return significant(value) if digits is None else f"{value:.{digits}f}"


def spans_factors(metric: str) -> bool:
    """Whether scores differ by factors, so that a mean ± a deviation says nothing of them."""
    return metric.startswith("mse_") or metric == "cross_entropy_nats"


def middle(metric: str, found: Summary | None) -> str:
    """The mean of a score or, where scores differ by factors, the median."""
    if found is None:
        return ABSENT
    return score(metric, found.median if spans_factors(metric) else found.mean)


def spread(metric: str, found: Summary | None) -> str:
    """The spread of a score to the decimals of its mean, the range where scores differ by factors,
    or nothing for a single seed."""
    if found is None or found.spread is None:
        return ""
    if spans_factors(metric):
        return f"{significant(found.least, 2)} to {significant(found.most, 2)}"
    mean = score(metric, found.mean)
    if mean.endswith(" %") or metric.startswith(("perplexity", "bits")):
        places = len(mean.removesuffix(" %").partition(".")[2])
        times = 100 if metric.startswith("accuracy") else 1
        return f"± {times * found.spread:.{places}f}"
    return f"± {significant(found.spread, 2)}"


def summary(metric: str, found: Summary | None) -> str:
    """Mean and spread of a score, such as `93.48 ± 0.12 %`, or median and range of one whose
    values differ by factors."""
    mean = middle(metric, found)
    if found is None or found.spread is None:
        return mean
    if spans_factors(metric):
        return f"{mean} ({spread(metric, found)})"
    unit = " %" if mean.endswith(" %") else ""
    return f"{mean.removesuffix(' %')} {spread(metric, found)}{unit}"


def significant(value: float, digits: int = 3) -> str:
    """A number with a few significant digits, without an exponent where it is readable so."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:.{places}f}"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def count(number: float | None) -> str:
    """A count of parameters as the paper writes it: 20.6k, 2.54M."""
    if number is None:
        return ABSENT
    if number >= 999_500:
        return f"{number / 1e6:.{1 if number >= 1e7 else 2}f}M"
    return f"{number / 1e3:.1f}k" if number >= 1000 else f"{number:.0f}"


def whole(number: float | None) -> str:
    """A whole number with thin gaps between thousands."""
    return ABSENT if number is None else f"{round(number):,}".replace(",", "\u202f")


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def size(amount: float) -> str:
    """An amount of memory."""
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} GiB"


def commit(name: str | None) -> str:
    """A commit's first ten letters, and whether the files differed from it."""
    if not name:
        return ABSENT
    digits, dirty, _ = str(name).partition("-dirty")
    return digits[:10] + dirty
