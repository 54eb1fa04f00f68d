"""What values the annotation of a configuration field allows, in one place for every reader."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from passnet.config.errors import ConfigurationError


@dataclass(frozen=True)
class Allowed:
    """The alternatives of one annotation; `tagged` when a dataclass value needs its kind beside."""

    none: bool = False
    words: tuple[str, ...] = ()
    scalars: tuple[type, ...] = ()
    bases: tuple[type, ...] = ()
    items: tuple[Any, ...] = ()
    tagged: bool = False

    NAMES: ClassVar = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}

    @property
    def classes(self) -> tuple[type, ...]:
        """The dataclasses a value may be an instance of; a base stands for its subclasses."""
        return tuple(leaf for base in self.bases for leaf in (base.__subclasses__() or [base]))

    def describe(self) -> str:
        """The alternatives in words, for the 'expected' half of an error."""
        parts = [repr(word) for word in self.words]
        parts += [self.NAMES[scalar] for scalar in self.scalars]
        parts += [signature(cls) for cls in self.classes]
        if self.items:
            inner = " and ".join(allowed(item).describe() for item in self.items if item is not ...)
            parts.append(f"a list of {inner}")
        if self.none:
            parts.append("none")
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


@cache
def allowed(annotation: Any) -> Allowed:
    """Read an annotation: scalars, None, Literal words, tuples, dataclasses and their unions."""
    if annotation is None or annotation is types.NoneType:
        return Allowed(none=True)
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union(tuple(allowed(argument) for argument in arguments))
    if origin is Literal:
        return Allowed(words=arguments)
    if origin is tuple:
        return Allowed(items=arguments)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return Allowed(bases=(annotation,), tagged=bool(annotation.__subclasses__()))
    if annotation in (bool, int, float, str):
        return Allowed(scalars=(annotation,))
    raise TypeError(f"no configuration field may be annotated {annotation!r}")


def _union(parts: tuple[Allowed, ...]) -> Allowed:
    def joined(name: str) -> tuple:
        return tuple(item for part in parts for item in getattr(part, name))

    return Allowed(
        none=any(part.none for part in parts),
        words=joined("words"),
        scalars=joined("scalars"),
        bases=joined("bases"),
        items=joined("items"),
        tagged=True,
    )


@cache
def field_types(cls: type) -> dict[str, Any]:
    """Field name to annotation of a configuration dataclass, in order."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def required(cls: type) -> tuple[str, ...]:
    """The fields of `cls` that have no default."""
    return tuple(
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )


def kind_of(cls: type) -> str:
    """How files and the command line spell a class, such as `low-rank` for LowRank."""
    return cls.__dict__.get("kind") or re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


def signature(cls: type) -> str:
    """A class and its keys as a user would write them, such as `LowRank(rank, tied)`."""
    return f"{cls.__name__}({', '.join(field_types(cls))})"


def accepts(annotation: Any, value: Any) -> bool:
    """Whether a Python value is one the annotation allows; a float field takes a whole number."""
    options = allowed(annotation)
    if value is None:
        return options.none
    if isinstance(value, bool):
        return bool in options.scalars
    if isinstance(value, str):
        return str in options.scalars or value in options.words
    if isinstance(value, int):
        return int in options.scalars or float in options.scalars
    if isinstance(value, float):
        return float in options.scalars and math.isfinite(value)
    if isinstance(value, tuple):
        return _accepts_items(options.items, value)
    return isinstance(value, options.bases)


def _accepts_items(items: tuple[Any, ...], value: tuple) -> bool:
    if len(items) == 2 and items[1] is ...:
        return all(accepts(items[0], item) for item in value)
    return len(items) == len(value) > 0 and all(map(accepts, items, value))


def check_types(value: Any) -> None:
    """Raise when a field of a configuration dataclass holds what its annotation does not allow."""
    for name, annotation in field_types(type(value)).items():
        given = getattr(value, name)
        if not accepts(annotation, given):
            raise ConfigurationError(
                f"{name}: got {given!r}, expected {allowed(annotation).describe()}"
            )


def check_range(
    value: Any,
    *names: str,
    low: float,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Raise when a field that holds a number holds one outside low..high."""
    for name in names:
        given = getattr(value, name)
        if given is None or isinstance(given, str) or dataclasses.is_dataclass(given):
            continue
        too_low = given <= low if open_low else given < low
        too_high = given >= high if open_high else given > high
        if too_low or too_high:
            floor = f"above {low}" if open_low else f"at least {low}"
            ceiling = (
                "" if math.isinf(high) else f" and {'below' if open_high else 'at most'} {high}"
            )
            raise ConfigurationError(f"{name}: got {given!r}, expected a number {floor}{ceiling}")
