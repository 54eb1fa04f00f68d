"""All commands under one parser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from passnet import __version__
from passnet.cli import (
    bench,
    data,
    doctor,
    export,
    listing,
    report,
    reproduce,
    runs,
    show,
    training,
)
from passnet.cli.errors import explained, flushed
from passnet.cli.helping import Paragraphs, answer_with_help
from passnet.cli.streams import ready_streams

_COMMANDS = (listing, show, training, runs, export, data, report, reproduce, bench, doctor)

_DESCRIPTION = """\
Low-rank passthrough networks: every experiment of the paper is one command away.

  passnet train quick/copy                train it; the same command resumes it
  passnet list                            what else can be trained
  passnet show psmnist/lrd-gru-256-24     everything about one preset
  passnet data fetch                      get MNIST and Penn Treebank
  passnet train quick/character-stream --text my.txt    a model of your own text
  passnet sample runs/quick/character-stream/seed-0 --prompt "Memory "
  passnet report runs                     compare runs with the paper
  passnet reproduce table1 --dry-run      which runs a table still lacks
"""


def run(arguments: Sequence[str] | None) -> int:
    """Run one command; returns its exit status."""
    ready_streams()
    try:
        args = _parser().parse_args(arguments)
    except SystemExit as help_or_mistake:
        help_or_mistake.code = flushed(int(help_or_mistake.code or 0))
        raise
    return flushed(explained(lambda: args.run(args)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="passnet",
        description=_DESCRIPTION,
        formatter_class=Paragraphs,
    )
    answer_with_help(parser)
    parser.add_argument("--version", action="version", version=f"passnet {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    return parser
