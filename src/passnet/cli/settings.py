"""What `--set` can change on an experiment, written as it can be typed."""

from __future__ import annotations

import dataclasses
from typing import Any

from passnet.config import Experiment, Model, settings


def typed_settings(experiment: Experiment) -> dict[str, str]:
    """Key to value, in the words that `--set key=value` takes.

    Of a group that can be another one, such as the optimiser, there is the whole and each part.
    """
    found = {}
    for key, plain in settings(experiment).items():
        holder, name = _place(experiment, key)
        if isinstance(holder, Model) and not holder.serves(name):
            continue
        if name == "sizes" and getattr(holder, "source", None) == "mnist":
            continue  # those of synthetic digits
        if not isinstance(plain, dict) or "kind" in plain:
            found[key] = _typed(getattr(holder, name))
    return found


def _place(experiment: Experiment, key: str) -> tuple[Any, str]:
    """The value that has the last part of a dotted key for a field, and that part."""
    *groups, name = key.split(".")
    holder: Any = experiment
    for group in groups:
        holder = getattr(holder, group)
    return holder, name


def _typed(value: Any, *, inside: bool = False) -> str:
    """A value as typed; `inside` another one, where commas would end it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        words = ",".join(_typed(item, inside=True) for item in value)
        return f"({words})" if inside else words
    if dataclasses.is_dataclass(value):
        return _called(value)
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


def _called(value: Any) -> str:
    """Such as `LowRank(24, tied=true)`; what has its default is left out."""
    words = []
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if field.default is dataclasses.MISSING:
            words.append(_typed(given, inside=True))
        elif given != field.default:
            words.append(f"{field.name}={_typed(given, inside=True)}")
    name = type(value).__name__
    return f"{name}({', '.join(words)})" if words else name
