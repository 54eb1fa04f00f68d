"""Checks on constructor arguments: what was given, what was expected, what to do."""

from __future__ import annotations

from numbers import Real

import torch


def check_sizes(**sizes: int) -> None:
    """Raise for a size that is not a positive whole number."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"{name} must be an int, got {size!r} of type {type(size).__name__}")
        if size < 1:
            raise ValueError(f"{name}={size}: give 1 or more")


def check_flags(**flags: bool) -> None:
    """Raise for a flag that is not True or False, such as a number meant for another argument."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name}={flag!r}: give True or False")


def check_dtype(dtype: torch.dtype | None) -> None:
    """Raise for a type that real weights cannot have."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"dtype={dtype!r}: give a real one, such as torch.float32")


def check_probability(*, up_to_one: bool = False, **rates: float) -> None:
    """Raise for a rate that is no probability, or is one where nothing would be left to scale up.

    Between layers all may be dropped, as torch.nn lets it.
    """
    for name, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, Real):
            raise TypeError(f"{name} must be a number, got {rate!r}")
        if not 0 <= rate <= 1 or (rate == 1 and not up_to_one):
            most = "at most" if up_to_one else "below"
            raise ValueError(f"{name}={rate!r}: give a probability, at least 0 and {most} 1")


def check_choice(name: str, given: str, choices: tuple[str, ...]) -> None:
    """Raise for a word that is not among the choices."""
    if given not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}={given!r}: choose {known}")


def check_row_norm(limit: float | None, name: str = "max_row_norm") -> None:
    """Raise for a limit that no row could keep to."""
    number = isinstance(limit, Real) and not isinstance(limit, bool)
    if limit is not None and not (number and limit > 0):
        raise ValueError(f"{name}={limit!r}: give a positive number, or None")
