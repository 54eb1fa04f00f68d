"""A command line that ends too early is answered with the whole help."""

from __future__ import annotations

import argparse
import sys

from passnet.cli.errors import USAGE


def answer_with_help(parser: argparse.ArgumentParser) -> None:
    """Print the parser's help where none of its commands is named, which is a wrong argument."""

    def show(args: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return USAGE

    parser.set_defaults(run=show)
