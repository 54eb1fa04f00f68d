"""The one place that turns the task of an experiment into data and scores."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from passnet import tasks
from passnet.config import (
    AdditionTask,
    CharacterTask,
    CopyTask,
    FlatMnistTask,
    SequentialMnistTask,
    Task,
)
from passnet.tasks.corpus import load_corpus
from passnet.tasks.task import Task as Problem


def build_task(task: Task, *, data_dir: str | os.PathLike[str] | None = None) -> Problem:
    """Data and scores as `task` describes them; files are looked for in `data_dir` first."""
    folder = None if data_dir is None else os.fspath(data_dir)
    if isinstance(task, CharacterTask):
        return _character(task, folder)
    # Fields of the others are called as the arguments of the classes that they describe.
    given: dict[str, Any] = asdict(task)
    match task:
        case CopyTask():
            return tasks.Copy(**given)
        case AdditionTask():
            return tasks.Addition(**given)
        case SequentialMnistTask():
            return tasks.SequentialMNIST(**given, data_dir=folder)
        case FlatMnistTask():
            return tasks.FlatMNIST(**given, data_dir=folder)


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


def _character(task: CharacterTask, folder: str | None) -> Problem:
    if task.mode == "stream":
        assert task.window is not None
        return tasks.CharacterStream(
            source=task.source, path=task.path, unk=task.unk, window=task.window, data_dir=folder
        )
    return tasks.CharacterSentences(
        source=task.source,
        path=task.path,
        unk=task.unk,
        longest=task.longest,
        order=task.order,
        average=task.average,
        data_dir=folder,
    )
