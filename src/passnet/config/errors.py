"""The error for a value that an experiment cannot have, always one sentence a user can act on."""

from __future__ import annotations


class ConfigurationError(ValueError):
    """A key, type or number of an experiment is wrong; the text says what to give instead."""
