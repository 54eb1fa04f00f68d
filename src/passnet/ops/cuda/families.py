"""Which kernels serve a call on a chip."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import NamedTuple

from passnet.ops.cuda import large, small, whole
from passnet.ops.cuda.call import Call, known, refuses_anywhere
from passnet.ops.cuda.chip import Chip

Families = Callable[[Call, Chip], ModuleType | str]
"""The module that serves a call on a chip, or the sentence why none does."""


@cache
def family_of(call: Call, chip: Chip) -> ModuleType | str:
    """The module that serves a call on a chip, or the sentence why none does."""
    general = refuses_anywhere(call)
    if general is not None:
        return general
    shared = chip.shared_limit
    if small.refuses(call, shared_limit=shared) is None:
        return small
    return large.refuses(call, processors=chip.processors, shared_limit=shared) or large


@cache
def fastest_family(call: Call, chip: Chip) -> ModuleType | str:
    """`family_of`, or `whole` where the scan is to run with whole matrices instead of factors."""
    return whole if whole.pays(call, shared_limit=chip.shared_limit) else family_of(call, chip)


class Served(NamedTuple):
    """What a call asks of a kernel, on which chip, and who serves it there."""

    found: Call
    chip: Chip
    family: ModuleType
    instead: Served | None
    """Where the family is `whole`, the same scan with whole matrices."""


@cache
def served_by(families: Families, facts: tuple, chip: Chip) -> Served:
    """Who serves the call with these fields on a chip; raises the sentence why nobody does."""
    return _served(families, known(*facts), chip)


def _served(families: Families, found: Call, chip: Chip) -> Served:
    family = families(found, chip)
    if isinstance(family, str):
        raise ValueError(family)
    instead = _served(families, whole.instead(found), chip) if family is whole else None
    return Served(found, chip, family, instead)
