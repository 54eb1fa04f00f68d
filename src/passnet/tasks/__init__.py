"""The paper's tasks: data, loss, score, and the score of a model that remembers nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passnet.tasks.addition import Addition
    from passnet.tasks.character_sentences import CharacterSentences
    from passnet.tasks.character_stream import CharacterStream
    from passnet.tasks.copy import Copy
    from passnet.tasks.corpus import Corpus, Vocabulary
    from passnet.tasks.data import DataError
    from passnet.tasks.flat_mnist import FlatMNIST
    from passnet.tasks.sequential_mnist import SequentialMNIST
    from passnet.tasks.task import Batch, Task, Totals

_MODULE_OF = {
    "Addition": "addition",
    "Batch": "task",
    "CharacterSentences": "character_sentences",
    "CharacterStream": "character_stream",
    "Copy": "copy",
    "Corpus": "corpus",
    "DataError": "data",
    "FlatMNIST": "flat_mnist",
    "SequentialMNIST": "sequential_mnist",
    "Task": "task",
    "Totals": "task",
    "Vocabulary": "corpus",
}

__all__ = [
    "Addition",
    "Batch",
    "CharacterSentences",
    "CharacterStream",
    "Copy",
    "Corpus",
    "DataError",
    "FlatMNIST",
    "SequentialMNIST",
    "Task",
    "Totals",
    "Vocabulary",
]


def __getattr__(name: str) -> object:
    # Looked up on demand so that `passnet.tasks.data`, which needs no torch, stays quick to import.
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"passnet.tasks.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"passnet.tasks has no {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
