"""Which experiment a command means: a preset's name, changes to it, a text of the user's."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from passnet.config import CharacterTask, ConfigurationError, Experiment, apply_overrides
from passnet.experiments import get


def add_names(
    parser: argparse.ArgumentParser, *, nargs: int | str, metavar: str, help: str
) -> None:
    """What a command is about; `chosen_names` reads it, and says so where it is missing."""
    parser.add_argument("names", nargs=nargs, metavar=metavar, help=help).required = False


def chosen_names(args: argparse.Namespace) -> list[str]:
    """The names on a command line; where none stands elsewhere, the words behind --set's settings.

    argparse takes every word after --set, also the name in `--set updates=20 quick/copy`.
    """
    names = list(args.names or [])
    for group in [] if names else args.overrides:
        end = 1 + max((k for k, word in enumerate(group) if "=" in word), default=len(group))
        names += group[end:]
        del group[end:]
    if not names:
        raise ConfigurationError(
            "no preset was named: put one from `passnet list` before the options, as in "
            "quick/copy --set updates=20"
        )
    return names


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """The options that change a preset."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        nargs="+",
        default=[],
        help="change settings, such as model.size=256 'model.matrix=LowRank(24)' "
        "optimiser.learning_rate=1e-3; `passnet show NAME` lists the keys",
    )
    parser.add_argument(
        "--text",
        metavar="FILE",
        help="for character presets: your own text instead of the preset's",
    )


def chosen_experiment(name: str, args: argparse.Namespace) -> Experiment:
    """The preset of that name, with the changes asked for."""
    if "=" in name:
        raise ConfigurationError(f"no preset is called {name!r}: perhaps --set {name}")
    experiment = get(name)
    if args.text is not None:
        experiment = with_text(experiment, Path(args.text))
    return apply_overrides(experiment, [text for group in args.overrides for text in group])


def with_text(experiment: Experiment, path: Path) -> Experiment:
    """The same experiment on a text of the user's."""
    if not isinstance(experiment.task, CharacterTask):
        raise ConfigurationError(
            f"--text serves character presets only, and {experiment.name} is a "
            f"{experiment.task.kind} task: choose one from `passnet list char`"
        )
    if not path.is_file():
        raise ConfigurationError(f"--text: there is no file {path}")
    task = dataclasses.replace(
        experiment.task, source="file", path=str(path.resolve()), vocabulary=None
    )
    return dataclasses.replace(experiment, task=task, protocol="ours", paper=None)
