"""Applying `key=value` changes, as typed after `--set`, to an experiment; the only such place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from passnet.config.errors import ConfigurationError
from passnet.config.experiment import Experiment
from passnet.config.fields import allowed, field_types, signature
from passnet.config.identity import DESCRIPTION
from passnet.config.metrics import METRICS
from passnet.config.nearest import nearest
from passnet.config.plain import class_of, decode, encode, from_json, to_json
from passnet.config.text import parse

_SAME_PROTOCOL = ("seed", "accumulate")


def apply_overrides(experiment: Experiment, overrides: Iterable[str]) -> Experiment:
    """The experiment with `key=value` texts applied in order and checked once all are known.

    Setting one of `updates` and `epochs` turns the other off, and setting the metric of selection
    sets its direction. A change of anything but the seed
    and the way a batch is computed makes the protocol ours.
    """
    plain = to_json(experiment)
    changed: set[str] = set()
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigurationError(
                f"got {override!r}, expected key=value such as optimiser.learning_rate=1e-3"
            )
        _set(plain, key, text)
        changed.add(key)
    for given, other in (("updates", "epochs"), ("epochs", "updates")):
        if given in changed and other not in changed and plain[given] is not None:
            plain[other] = None
    selection = plain["selection"]
    if "selection.metric" in changed and "selection.mode" not in changed:
        metric = METRICS.get(selection["metric"])
        selection["mode"] = selection["mode"] if metric is None else metric.better
    result = from_json(plain)
    if differences(result, experiment, ignore=(*DESCRIPTION, *_SAME_PROTOCOL)):
        result = dataclasses.replace(result, protocol="ours")
    return result


def settings(experiment: Experiment) -> dict[str, Any]:
    """The dotted keys that can be set on this experiment and their values, of a group all of it."""
    flat = _flatten(to_json(experiment), groups=True)
    return {key: value for key, value in flat.items() if _settable(key)}


def differences(
    one: Experiment, other: Experiment, *, ignore: Iterable[str] = DESCRIPTION
) -> dict[str, tuple[Any, Any]]:
    """Dotted key to (value in one, value in other) for every key that differs.

    What does not change a computation (name, protocol, the paper's record, notes) is left out.
    """
    ignore = set(ignore)
    first, second = _flatten(to_json(one)), _flatten(to_json(other))
    return {
        key: (first.get(key), second.get(key))
        for key in [*first, *(key for key in second if key not in first)]
        if key.split(".")[0] not in ignore and first.get(key) != second.get(key)
    }


def _set(plain: dict[str, Any], key: str, text: str) -> None:
    if key.split(".")[0] in DESCRIPTION:
        raise ConfigurationError(f"{key}: describes the preset and cannot be set")
    cls, place = Experiment, plain
    *groups, last = key.split(".")
    walked, alternatives = "", (Experiment,)
    for name in groups:
        annotation = _annotation(cls, name, key, plain)
        walked = f"{walked}.{name}".lstrip(".")
        inner = place[name]
        if not isinstance(inner, dict):
            options = allowed(annotation)
            choices = " or ".join(signature(choice) for choice in options.classes)
            remedy = f"set {walked}={choices}" if choices else f"set {walked} itself"
            raise ConfigurationError(
                f"{key}: {walked} is {inner!r} and has no key {last!r}: {remedy}"
            )
        cls, place = class_of(annotation, inner, walked), inner
        alternatives = allowed(annotation).classes
    if last == "kind" and len(alternatives) > 1:
        choices = " or ".join(map(signature, alternatives))
        raise ConfigurationError(f"{key}: set {walked} itself: {walked}={choices}")
    others = [signature(other) for other in alternatives if last in field_types(other)]
    if others and last not in field_types(cls):
        raise ConfigurationError(
            f"{key}: {walked} is {cls.__name__}, which has no key {last!r}: "
            f"set {walked}={' or '.join(others)}"
        )
    annotation = _annotation(cls, last, key, plain)
    value = parse(annotation, text, key)
    place[last] = encode(annotation, decode(annotation, value, key), key)


def _annotation(cls: type, name: str, key: str, plain: dict[str, Any]) -> Any:
    known = field_types(cls)
    if name in known:
        return known[name]
    raise ConfigurationError(f"{key}: {cls.__name__} has no key {name!r}; {_remedy(key, plain)}")


def _remedy(key: str, plain: dict[str, Any]) -> str:
    keys = [known for known in _flatten(plain, groups=True) if _settable(known)]
    last = key.rpartition(".")[2]
    same = [known for known in keys if known.rpartition(".")[2] == last]
    if same:
        return f"perhaps you meant {same[0]!r}"
    found = nearest(key, keys)
    return f"perhaps you meant {found!r}" if found else "`passnet show NAME` lists the keys"


def _settable(key: str) -> bool:
    return key.split(".")[0] not in DESCRIPTION and not key.endswith(".kind")


def _flatten(plain: dict[str, Any], prefix: str = "", *, groups: bool = False) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in plain.items():
        key = f"{prefix}{name}"
        if groups or not isinstance(value, dict):
            flat[key] = value
        if isinstance(value, dict):
            flat |= _flatten(value, f"{key}.", groups=groups)
    return flat
