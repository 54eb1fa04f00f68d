"""Why a module was not exported; nothing has been written then."""

from __future__ import annotations


class Unexportable(RuntimeError):
    """A module that cannot be a program; the text says why, and what could be done."""


class Disagreement(RuntimeError):
    """A program that computes something else than the module it was made of."""
