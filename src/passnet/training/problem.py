"""The one place that turns the task of an experiment into data and scores."""

from __future__ import annotations

import os
from pathlib import Path

from passnet.config import (
    AdditionTask,
    CharacterTask,
    CopyTask,
    FlatMnistTask,
    SequentialMnistTask,
    Task,
)
from passnet.tasks.addition import Addition
from passnet.tasks.character_sentences import CharacterSentences
from passnet.tasks.character_stream import CharacterStream
from passnet.tasks.copy import Copy
from passnet.tasks.corpus import load_corpus
from passnet.tasks.flat_mnist import FlatMNIST
from passnet.tasks.sequential_mnist import SequentialMNIST
from passnet.tasks.task import Task as Problem


def build_task(task: Task, *, data_dir: str | os.PathLike[str] | None = None) -> Problem:
    """Data and scores as `task` describes them; files are looked for in `data_dir` first."""
    folder = None if data_dir is None else os.fspath(data_dir)
    match task:
        case CopyTask():
            return Copy(task)
        case AdditionTask():
            return Addition(task)
        case SequentialMnistTask():
            return SequentialMNIST(task, data_dir=folder)
        case FlatMnistTask():
            return FlatMNIST(task, data_dir=folder)
        case CharacterTask(mode="stream"):
            return CharacterStream(task, data_dir=folder)
        case CharacterTask():
            return CharacterSentences(task, data_dir=folder)


def quick_record(task: Task) -> dict[str, str]:
    """What of a task's data may have become another since a run ended, without preparing them.

    That is a text of the user's, where it is there: published files are compared with their SHA-256
    whenever they are read, and the rest is drawn.
    """
    if not isinstance(task, CharacterTask) or task.path is None:
        return {}
    path = Path(task.path).expanduser()
    if not path.is_file():
        return {}
    return {"text_sha256": load_corpus(task.source, path=path, unk=task.unk).digest()}
