"""`passnet report`: what runs have reached, as a table and curves, or as one page."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from passnet.cli.errors import FAILED
from passnet.cli.places import check_page
from passnet.cli.streams import terminal_width
from passnet.config import ConfigurationError


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "report",
        help="tables and curves of runs, in the terminal or as one HTML page",
        description="Read run folders and compare them with the paper. Without --out the tables "
        "and curves are printed; with it one self-contained page is written. Damaged runs are "
        "skipped with a warning, and the exit status is then 1.",
    )
    parser.add_argument(
        "folders", metavar="RUN", nargs="+", help="run folders, or folders that contain some"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="write the page here")
    parser.add_argument(
        "--benchmarks",
        type=Path,
        metavar="FOLDER",
        help="speed results for the page that --out writes (default benchmarks/results, if it "
        "exists)",
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument(
        "--trials",
        action="store_true",
        help="also print trials: runs of presets with changed settings, which are left out if the "
        "preset itself was run",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report or write the page."""
    _check_forms(args)
    if args.out is not None:
        check_page("--out", args.out)
    from passnet.report import text_report, write_page

    folders = [Path(folder) for folder in args.folders]
    left_out = []

    def warn(text: str) -> None:
        left_out.append(text)
        print(f"passnet: {text}", file=sys.stderr)

    if args.out is not None:
        usual = Path("benchmarks/results")
        benchmarks = args.benchmarks or (usual if usual.is_dir() else None)
        write_page(folders, args.out, benchmarks=benchmarks, warn=warn)
        print(f"wrote {args.out}", file=sys.stderr)
    else:
        text = text_report(
            folders, json=args.json, trials=args.trials, width=terminal_width(), warn=warn
        )
        if text:
            print(text)
        if text and sys.stdout.isatty() and not args.json:
            words = shlex.join(["passnet", "report", *args.folders, "--out", "report.html"])
            print(f"To see this and more as a page in a browser:\n  {words}")
    return FAILED if left_out else 0


def _check_forms(args: argparse.Namespace) -> None:
    """Raise where an option would have no effect on what is printed or written."""
    if args.out is not None and args.json:
        raise ConfigurationError(
            f"--json and --out {args.out}: the page is HTML and JSON is printed, so give one of "
            "them, and run the command again for the other"
        )
    if args.trials and (args.out is not None or args.json):
        form = "--json" if args.json else f"--out {args.out}"
        raise ConfigurationError(
            f"--trials and {form}: trials are always in the page and in JSON, so leave --trials out"
        )
    if args.out is None and args.benchmarks is not None:
        raise ConfigurationError(
            f"--benchmarks {args.benchmarks} without --out: only the page shows timings, so give "
            "--out FILE.html too, or leave --benchmarks out"
        )
