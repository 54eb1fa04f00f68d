"""Experiments as plain JSON values and back, complete and checked; the only such place."""

from __future__ import annotations

from typing import Any

from passnet.config.errors import ConfigurationError
from passnet.config.experiment import Experiment
from passnet.config.fields import accepts, allowed, field_types, kind_of, required
from passnet.config.nearest import suggestion


def to_json(experiment: Experiment) -> dict[str, Any]:
    """Every field of an experiment as dicts, lists, numbers, strings and None."""
    return encode(Experiment, experiment)


def from_json(plain: Any) -> Experiment:
    """The experiment that `to_json` wrote; keys that have a default may be missing."""
    return decode(Experiment, plain)


def encode(annotation: Any, value: Any, key: str = "") -> Any:
    """The plain form of a value of a field annotated so."""
    options = allowed(annotation)
    if not accepts(annotation, value):
        raise _mismatch(key, value, annotation)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if type(value) in options.scalars else float(value)
    if isinstance(value, tuple):
        items = _item_annotations(options.items, len(value))
        return [encode(item, part, key) for item, part in zip(items, value, strict=True)]
    tag = {"kind": kind_of(type(value))} if options.tagged else {}
    return tag | {
        name: encode(inner, getattr(value, name), _join(key, name))
        for name, inner in field_types(type(value)).items()
    }


def decode(annotation: Any, plain: Any, key: str = "") -> Any:
    """The value a plain form stands for; raises with the key, what was given and expected."""
    options = allowed(annotation)
    if isinstance(plain, dict) and options.bases:
        cls = class_of(annotation, plain, key)
        fields = {name: part for name, part in plain.items() if name != "kind"}
        return _decode_class(cls, fields if options.tagged else plain, key)
    if isinstance(plain, list) and options.items:
        items = _item_annotations(options.items, len(plain))
        if len(items) != len(plain):
            raise _mismatch(key, plain, annotation)
        return tuple(decode(item, part, key) for item, part in zip(items, plain, strict=True))
    if isinstance(plain, dict | list | tuple) or not accepts(annotation, plain):
        raise _mismatch(key, plain, annotation)
    whole_for_float = type(plain) is int and int not in options.scalars
    return float(plain) if whole_for_float else plain


def class_of(annotation: Any, plain: dict[str, Any], key: str) -> type:
    """The dataclass a plain dict describes: by its `kind` where several are possible."""
    options = allowed(annotation)
    if not options.tagged:
        return options.classes[0]
    kinds = {kind_of(cls): cls for cls in options.classes}
    kind = plain.get("kind")
    if kind is None and len(kinds) == 1:
        return options.classes[0]
    if kind not in kinds:
        raise ConfigurationError(
            f"{_join(key, 'kind')}: got {kind!r}, expected one of {', '.join(kinds)}; "
            f"{suggestion(str(kind), kinds)}"
        )
    return kinds[kind]


def _decode_class(cls: type, plain: dict[str, Any], key: str) -> Any:
    known = field_types(cls)
    for name in plain:
        if name not in known:
            raise ConfigurationError(
                f"{_join(key, str(name))}: {cls.__name__} has no key {name!r}; "
                f"{suggestion(str(name), known)}"
            )
    missing = [name for name in required(cls) if name not in plain]
    if missing:
        raise ConfigurationError(
            f"{key or 'the experiment'}: {cls.__name__} needs {', '.join(missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} missing"
        )
    values = {
        name: decode(inner, plain[name], _join(key, name))
        for name, inner in known.items()
        if name in plain
    }
    try:
        return cls(**values)
    except ConfigurationError as error:
        # Its text begins with the name of the field, so the key in front completes the path.
        raise ConfigurationError(_join(key, str(error))) from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{key}: {error}") from error


def _item_annotations(items: tuple[Any, ...], length: int) -> tuple[Any, ...]:
    return items[:1] * length if len(items) == 2 and items[1] is ... else items


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _mismatch(key: str, given: Any, annotation: Any) -> ConfigurationError:
    return ConfigurationError(
        f"{key or 'the experiment'}: got {given!r}, expected {allowed(annotation).describe()}"
    )
