"""The one place that turns the task of an experiment into data and scores."""

from __future__ import annotations

import os
from pathlib import Path

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
    match task:
        case CopyTask():
            return tasks.Copy(
                form=task.form,
                lag=task.lag,
                length=task.length,
                train_size=task.train_size,
                eval_size=task.eval_size,
                order=task.order,
                data_seed=task.data_seed,
                curriculum=task.curriculum,
            )
        case AdditionTask():
            return tasks.Addition(
                steps=task.steps,
                train_size=task.train_size,
                eval_size=task.eval_size,
                order=task.order,
                data_seed=task.data_seed,
            )
        case SequentialMnistTask():
            return tasks.SequentialMNIST(
                permutation=task.permutation,
                source=task.source,
                pool=task.pool,
                sizes=task.sizes,
                order=task.order,
                label_smoothing=task.label_smoothing,
                mixup=task.mixup,
                hold_out=task.hold_out,
                data_dir=folder,
            )
        case FlatMnistTask():
            return tasks.FlatMNIST(
                source=task.source,
                pool=task.pool,
                l2=task.l2,
                l2_of=task.l2_of,
                loss=task.loss,
                label_smoothing=task.label_smoothing,
                mixup=task.mixup,
                hold_out=task.hold_out,
                sizes=task.sizes,
                order=task.order,
                data_dir=folder,
            )
        case CharacterTask():
            return _character(task, folder)


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
