"""What an experiment leaves unsaid is what a task leaves unsaid: their defaults are the same."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import Any

import pytest

from passnet import config, tasks

OF_THE_EXPERIMENT = {"mode", "vocabulary"}
"""Which task it is, and what is known of a text before it is read."""
OF_THE_TASK = {"data_dir", "check"}
"""Where files are, and whether they are compared with what was published."""
TWINS = [
    (config.CopyTask, tasks.Copy, set()),
    (config.AdditionTask, tasks.Addition, set()),
    (config.SequentialMnistTask, tasks.SequentialMNIST, set()),
    (config.FlatMnistTask, tasks.FlatMNIST, set()),
    # Sentences have no window. A stream of an experiment has to name one.
    (config.CharacterTask, tasks.CharacterSentences, {"window"}),
    (config.CharacterTask, tasks.CharacterStream, {"window", "longest", "order", "average"}),
]


def defaults(cls: type) -> dict[str, Any]:
    """Of the arguments of a task; those it hands on to its base are the base's."""
    found: dict[str, Any] = {}
    for owner in cls.__mro__:
        given = inspect.signature(owner.__init__).parameters.values()
        found |= {
            item.name: item.default
            for item in given
            if item.kind is item.KEYWORD_ONLY and item.name not in found
        }
        if not any(item.kind is item.VAR_KEYWORD for item in given):
            break
    return found


@pytest.mark.parametrize(("value", "task", "others"), TWINS, ids=[t[1].__name__ for t in TWINS])
def test_defaults_are_the_same(value, task, others):
    said = {item.name: item.default for item in fields(value)}
    assert MISSING not in said.values()
    said = {key: said[key] for key in said.keys() - OF_THE_EXPERIMENT - others}
    done = defaults(task)
    assert said == {key: done[key] for key in done.keys() - OF_THE_TASK - others}
