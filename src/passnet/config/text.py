"""Reading one value from the command line as the annotation of its field says."""

from __future__ import annotations

import json
import re
from typing import Any

from passnet.config.errors import ConfigurationError
from passnet.config.fields import Allowed, allowed, field_types, kind_of, signature
from passnet.config.nearest import nearest, suggestion

_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse(annotation: Any, text: str, key: str) -> Any:
    """The plain form of what was typed, such as `1e-3`, `none`, `low-rank:24` or `Cosine(500)`.

    The result may still be out of range: `decode` has the last word.
    """
    text = text.strip()
    options = allowed(annotation)
    if options.none and text.lower() == "none":
        return None
    if text in options.words:
        return text
    for scalar in options.scalars:
        value = _scalar(scalar, text)
        if value is not None:
            return value
    if options.items:
        return _items(options.items, text, key)
    if options.bases:
        return _instance(options, text, key)
    close = nearest(text, options.words)
    hint = f"; perhaps you meant {close!r}" if close else ""
    raise ConfigurationError(f"{key}: got {text!r}, expected {options.describe()}{hint}")


def _scalar(scalar: type, text: str) -> Any:
    if scalar is str:
        return text
    if scalar is bool:
        return _TRUTH.get(text.lower())
    try:
        number = float(text)
        if scalar is int and re.fullmatch(r"[+-]?[0-9_]+", text):
            return int(text)
    except ValueError:
        return None
    if scalar is float:
        return number
    return int(number) if number.is_integer() else None


def _items(items: tuple[Any, ...], text: str, key: str) -> list[Any]:
    inside = text[1:-1] if text[:1] + text[-1:] in ("()", "[]") else text
    parts = _split(inside)
    kinds = items[:1] * len(parts) if items[-1] is ... else items
    if len(kinds) != len(parts):
        raise ConfigurationError(f"{key}: got {text!r}, expected {len(kinds)} values with commas")
    return [parse(kind, part, key) for kind, part in zip(kinds, parts, strict=True)]


def _instance(options: Allowed, text: str, key: str) -> dict[str, Any]:
    if text.startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigurationError(f"{key}: {text!r} is not JSON: {error}") from error
    match = re.fullmatch(r"([A-Za-z][\w-]*)\s*(?:\((.*)\)|:(.*))?", text, re.DOTALL)
    classes, choices = options.classes, options.describe()
    if match is None:
        raise ConfigurationError(f"{key}: got {text!r}, expected {choices}")
    name, called, listed = match.groups()
    spellings = {_fold(word): cls for cls in classes for word in (cls.__name__, kind_of(cls))}
    cls = spellings.get(_fold(name))
    if cls is None:
        kinds = [cls.__name__ if "(" in text else kind_of(cls) for cls in classes]
        raise ConfigurationError(
            f"{key}: got {text!r}, expected {choices}; {suggestion(name, kinds)}"
        )
    return {"kind": kind_of(cls)} | _arguments(cls, called or listed or "", key)


def _arguments(cls: type, text: str, key: str) -> dict[str, Any]:
    known = field_types(cls)
    positions = iter(known)
    values: dict[str, Any] = {}
    for part in _split(text):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals and name in known and allowed(known[name]).scalars == (bool,):
            value = "true"
        elif not equals:
            name, value = next(positions, ""), part
        if name not in known or name in values:
            raise ConfigurationError(
                f"{key}: got {part.strip()!r} in {text!r}, expected {signature(cls)}; "
                f"{suggestion(name or part.strip(), known)}"
            )
        values[name] = parse(known[name], value, f"{key}.{name}")
    return values


def _split(text: str) -> list[str]:
    """The parts between commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part for part in [*parts, text[start:]] if part.strip()]


def _fold(word: str) -> str:
    return re.sub(r"[-_]", "", word).lower()
