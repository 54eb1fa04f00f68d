"""`passnet data`: which files are there, getting them, checking them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable
from dataclasses import asdict

from passnet.cli.errors import FAILED
from passnet.cli.helping import answer_with_help
from passnet.cli.tables import print_json, table
from passnet.tasks.catalogue import DATASETS
from passnet.tasks.data import FileStatus, fetch, list_files, looked_in, verify


def add(commands) -> None:
    """Register the command and its three verbs."""
    parser = commands.add_parser(
        "data",
        help="list, fetch or verify MNIST and Penn Treebank",
        description="passnet looks for data files in --data-dir, then PASSNET_DATA, then the "
        "user's cache folder; `fetch` writes to the first of these that is set. Synthetic tasks "
        "and the embedded text need no files.",
    )
    answer_with_help(parser)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    for verb, words, function in (
        ("list", "list the data files and their state", _list),
        (
            "fetch",
            "download missing or damaged files, checked by SHA-256, to --data-dir, else "
            "PASSNET_DATA, else the user's cache folder",
            _fetch,
        ),
        ("verify", "read every file and compare its SHA-256", _verify),
    ):
        one = verbs.add_parser(verb, help=words, description=f"{words[0].upper()}{words[1:]}.")
        if verb != "list":
            one.add_argument("datasets", nargs="*", help=f"{' or '.join(DATASETS)}; default all")
        add_data_dir(one)
        one.add_argument("--json", action="store_true", help="JSON instead of a table")
        one.set_defaults(run=function)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """The option that names where data files are."""
    parser.add_argument("--data-dir", metavar="FOLDER", help="look for data files here first")


def _list(args: argparse.Namespace) -> int:
    found = list_files(data_dir=args.data_dir)
    _show(found, args)
    if not args.json:
        print(f"looked in {looked_in(args.data_dir)}")
    if not args.json and any(status.state == "missing" for status in found):
        print(f"to get what is missing: {fetch_command([], args.data_dir)}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    found = fetch(args.datasets or DATASETS, data_dir=args.data_dir, progress=_progress())
    _show(found, args)
    return 0


def _verify(args: argparse.Namespace) -> int:
    found = verify(args.datasets or DATASETS, data_dir=args.data_dir)
    _show(found, args)
    faulty = dict.fromkeys(status.dataset for status in found if status.state != "right")
    if not faulty:
        return 0
    print(f"passnet: run `{fetch_command(faulty, args.data_dir)}`", file=sys.stderr)
    return FAILED


def fetch_command(datasets: Iterable[str], data_dir: str | None) -> str:
    """What to type to fetch data sets, all where none are named, into a folder, if one is."""
    place = ["--data-dir", data_dir] if data_dir else []
    return shlex.join(["passnet", "data", "fetch", *datasets, *place])


def _show(found: list[FileStatus], args: argparse.Namespace) -> None:
    if args.json:
        print_json([asdict(status) for status in found])
        return
    rows = [(s.dataset, s.name, s.state, s.path or "-", s.note) for s in found]
    print(table(("set", "file", "state", "where", ""), rows))


def _progress():
    """Bytes so far on one line of a terminal; silent elsewhere."""
    if not sys.stderr.isatty():
        return None

    def shown(name: str, have: int, total: int | None) -> None:
        of = f" of {total / 1e6:.1f}" if total else ""
        end = "\n" if total and have >= total else ""
        print(f"\r{name}: {have / 1e6:.1f}{of} MB", end=end, file=sys.stderr, flush=True)

    return shown
