"""What `passnet show` says of a preset in words: the paper, its data, results, what to type."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

from passnet.cli.task_data import data_words, missing_data
from passnet.config import METRICS, Experiment
from passnet.experiments import get
from passnet.report.metric_words import metric_words
from passnet.report.numbers import score
from passnet.report.paper import aim_score, paper_score
from passnet.report.recorded import recorded


def about(experiment: Experiment) -> Iterator[str]:
    """A line on the paper's number, on ours to reach, for each note, and on the data."""
    yield _paper(experiment)
    if experiment.aim is not None:
        yield f"aim: {metric_words(experiment.aim.metric)} {aim_score(experiment.aim)}"
    yield from (f"note: {note}" for note in experiment.notes)
    yield f"data: {data_words(experiment.task)}"


def next_steps(experiment: Experiment, args: argparse.Namespace) -> Iterator[str]:
    """What there is of it in the folder of results, and what to type to train it."""
    if experiment == get(experiment.name):
        for text in recorded(experiment.name, Path("results")):
            yield f"recorded in {text}"
    fetch = missing_data([experiment.task])
    if fetch:
        yield f"its data are missing, so run first: {fetch}"
    changes = [text for group in args.overrides for text in group]
    words = ["passnet", "train", experiment.name]
    words += ["--text", args.text] if args.text is not None else []
    words += ["--set", *changes] if changes else []
    yield f"to train it: {shlex.join(words)}"


def _paper(experiment: Experiment) -> str:
    paper = experiment.paper
    if paper is None:
        return "the paper has no number for this"
    words = [f"paper ({paper.where}): {metric_words(paper.metric)} {paper_score(experiment)}"]
    if paper.validation is not None:
        words.append(f"validation {score(paper.metric, paper.validation, digits=1)}")
    if paper.parameters is not None:
        words.append(f"{paper.parameters} parameters")
    return ", ".join(words) + f"  [{METRICS[paper.metric].meaning}]"
