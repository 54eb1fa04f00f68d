"""`passnet list`: what can be run; answers at once, without PyTorch."""

from __future__ import annotations

import argparse
from typing import Any

from passnet.cli.streams import terminal_width
from passnet.cli.tables import print_json, thousands
from passnet.config import ConfigurationError, printed_count
from passnet.experiments import get, listing

_HEADER = (
    "preset", "paper", "metric", "params", "printed", "size", "cell", "matrix", "in the paper",
)  # fmt: skip
_SPARE = ("in the paper", "matrix", "cell", "size", "printed", "metric", "params")
_LEGEND = (
    "paper: the test score that the paper prints. params: trainable parameters of the model; "
    "printed (if there is room for it): the count that the paper prints, which leaves some out.",
    "Next: passnet show NAME shows everything about one, passnet train NAME trains it. Presets "
    "that read MNIST or Penn Treebank need passnet data fetch first; those in quick/ need no data.",
)


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "list",
        help="list all presets with the paper's numbers",
        description="List all presets: the paper's, then ours (beyond/) and short ones (quick/).",
    )
    parser.add_argument(
        "filter", nargs="?", default="", help="only names that contain this text, ignoring case"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
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
    from passnet.report.columns import columns, wrapped

    width = terminal_width()
    print(columns(_HEADER, [_cells(row) for row in rows], width=width, spare=_SPARE))
    if width is not None:
        # Not in a pipe, where every line is a preset.
        print("\n" + "\n".join(wrapped(text, width) for text in _LEGEND))
    return 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    from passnet.report.metric_words import metric_words
    from passnet.report.paper import paper_score

    paper = paper_score(get(row["name"])).partition(" in ")[0]
    return (
        row["name"],
        "-" if row["paper_value"] is None else paper,
        metric_words(row["metric"]),
        thousands(row["parameters"]),
        _printed(row["paper_parameters_printed"]),
        str(row["size"]),
        row["cell"],
        row["matrix"],
        row["table"] or "-",
    )


def _printed(text: str | None) -> str:
    """The paper's count, written as ours are."""
    return "-" if text is None else thousands(*printed_count(text))
