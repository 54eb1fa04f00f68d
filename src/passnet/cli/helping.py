"""How help looks, and that it answers a command line that ends too early."""

from __future__ import annotations

import argparse
import sys
import textwrap

from passnet.cli.errors import USAGE


class Paragraphs(argparse.HelpFormatter):
    """Paragraphs of a description as wide as the terminal; indented lines stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = []
        for part in text.strip("\n").split("\n\n"):
            whole = part.startswith(" ")
            parts.append(part if whole else textwrap.fill(part, width, break_on_hyphens=False))
        return "\n\n".join(parts)


def answer_with_help(parser: argparse.ArgumentParser) -> None:
    """Print the parser's help where none of its commands is named, which is a wrong argument."""

    def show(args: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return USAGE

    parser.set_defaults(run=show)
