"""`passnet list`: what can be run; answers at once, without PyTorch."""

from __future__ import annotations

import argparse

from passnet.cli.tables import figure, print_json, table, thousands
from passnet.config import ConfigurationError, printed_count
from passnet.experiments import listing


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "list",
        help="all presets with the paper's numbers",
        description="All presets: the paper's rows, then ours (beyond/) and short ones (quick/).",
    )
    parser.add_argument(
        "filter", nargs="?", default="", help="only names containing this text, in capitals or not"
    )
    parser.add_argument("--json", action="store_true", help="one JSON list instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    rows = [row for row in listing() if args.filter.lower() in row["name"].lower()]
    if args.json:
        print_json(rows)
    if not rows:
        raise ConfigurationError(
            f"no preset's name contains {args.filter!r}: `passnet list` shows them all"
        )
    if args.json:
        return 0
    header = ("preset", "cell", "matrix", "size", "params", "paper's", "metric", "paper", "where")
    cells = [
        (
            row["name"],
            row["cell"],
            row["matrix"],
            row["size"],
            thousands(row["parameters"]),
            _printed(row["paper_parameters_printed"]),
            row["metric"],
            ("<" if row["paper_relation"] == "below" else "") + figure(row["paper_value"]),
            row["table"] or "-",
        )
        for row in rows
    ]
    print(table(header, cells))
    return 0


def _printed(text: str | None) -> str:
    """The paper's count, written as ours are."""
    return "-" if text is None else thousands(*printed_count(text))
