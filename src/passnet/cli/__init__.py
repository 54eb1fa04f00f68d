"""The command line: a module for each command, which parses, delegates and shows the outcome."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, also where Ctrl-C came while it was loaded."""
    try:
        from passnet.cli.commands import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
