"""The data of a task in words, and the files that it reads."""

from __future__ import annotations

from collections.abc import Iterable

from passnet.cli.data import fetch_command
from passnet.config import AdditionTask, CharacterTask, CopyTask
from passnet.config.tasks import Task, digit_splits
from passnet.report.numbers import whole
from passnet.tasks.data import list_files


def data_words(task: Task) -> str:
    """Which data there are to train on, validate and test."""
    if isinstance(task, CharacterTask):
        sources = {"ptb": "Penn Treebank", "embedded": "the text that comes with passnet"}
        return sources.get(task.source, f"the text {task.path}")
    if isinstance(task, CopyTask | AdditionTask):
        fresh = task.train_size is None
        train = "new ones for every update" if fresh else f"{whole(task.train_size)} for training"
        test = whole(task.eval_size)
        return f"synthetic sequences: {train}, {test} for validation and {test} for the test"
    train, valid, test = map(whole, digit_splits(task))
    kind = "digits of MNIST" if task.source == "mnist" else "synthetic digits"
    held = "" if task.hold_out else ", both of the first two used for training"
    return f"{kind}: {train} for training, {valid} for validation and {test} for the test{held}"


def missing_data(tasks: Iterable[Task], data_dir: str | None = None) -> str:
    """The command that fetches the files that tasks read and that are not here, or nothing."""
    sources = {getattr(task, "source", None) for task in tasks}
    found = list_files(data_dir=data_dir)
    missing = [s.dataset for s in found if s.state == "missing" and s.dataset in sources]
    return fetch_command(dict.fromkeys(missing), data_dir) if missing else ""
