"""`passnet reproduce`: what a table or figure of the paper still needs is run and reported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from passnet.cli.data import add_data_dir
from passnet.cli.device import add_device, check_device
from passnet.cli.errors import INTERRUPTED
from passnet.cli.helping import Paragraphs
from passnet.cli.places import check_folder, check_page
from passnet.cli.seeds import chosen_seeds
from passnet.cli.signals import leaving_at_once
from passnet.cli.streams import terminal_width
from passnet.cli.tables import print_json
from passnet.config import ConfigurationError, Experiment

if TYPE_CHECKING:
    from passnet.report.plan import Places, Step
    from passnet.report.targets import Target

_EPILOG = """\
NAME is one of these (with its number of rows, and of runs for three seeds each):

  table1     sequential permuted MNIST                     6 rows   18 runs
  table2     characters of Penn Treebank                  13 rows   39 runs
  copy       the memory task in its three forms           12 rows   36 runs
  addition   the addition task                             1 row     3 runs
  highway    Highway networks, appendix A.1                2 rows    6 runs
  figure2    the curves of copy, addition and table1      19 rows   57 runs
  paper      all tables and figures of the paper          34 rows  102 runs
  beyond     our recipes at the paper's budgets            9 rows   27 runs
  all        the paper and beyond                         43 rows  129 runs

or a preset or group of presets from `passnet list`, such as copy-500. `passnet bench` makes the
speed tables.

table1 and highway need MNIST, table2 Penn Treebank, and beyond both: get them first with
`passnet data fetch`. copy and addition need no files. --dry-run says which runs are missing and, if
runs of the same presets are recorded, how long they take.

Existing results are not run again. The others train in --runs, with checkpoints: on a GPU all but
the language models together, six at a time, then the seeds of each language model; on a CPU one
after another. A finished run is copied to --results without weights. When all runs of a group have
ended, the page is rebuilt, as are the generated tables of a README.md beside the results. A
diverged seed is a result too: it counts as failed. Stop at any time: the same command resumes.

  passnet reproduce table1 --dry-run
  passnet reproduce addition --seeds 1
  passnet reproduce copy-500 --seeds 0..4 --device cuda:1
  passnet reproduce all --quiet

Exit status: 0 complete, 1 a run failed, 2 a wrong argument or missing data, 130 stopped by a
signal.
"""


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "reproduce",
        help="train the runs that a table or figure still lacks, and rebuild the page",
        description="Train those runs of a table or figure of the paper that have no result yet, "
        "as the paper did, and rebuild the page that compares all results with the paper.",
        epilog=_EPILOG,
        formatter_class=Paragraphs,
    )
    parser.add_argument("name", metavar="NAME", help="a table or figure, as listed below")
    parser.add_argument(
        "--seeds",
        default="3",
        metavar="SEEDS",
        help="how many seeds per row, counted from 0 (default 3: seeds 0, 1 and 2), or which ones, "
        "as a range such as 0..4 or a list such as 1,5",
    )
    add_device(parser)
    add_data_dir(parser)
    folders = (
        ("--results", "results", "folder of results, old and new (results)"),
        ("--runs", "runs", "folder where runs train and keep checkpoints (runs)"),
    )
    for option, default, words in folders:
        parser.add_argument(option, type=Path, default=Path(default), metavar="FOLDER", help=words)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE.html",
        help="the page (report.html)",
    )
    parser.add_argument(
        "--benchmarks",
        type=Path,
        metavar="FOLDER",
        help="speed results for the page (default: benchmarks/results beside the results, if it "
        "exists)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and run nothing")
    parser.add_argument("--quiet", action="store_true", help="show only warnings while it runs")
    parser.add_argument("--json", action="store_true", help="print the plan or the outcome as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan, or carry it out and print the rows."""
    with leaving_at_once("the same command resumes"):
        return _planned(args)


def _planned(args: argparse.Namespace) -> int:
    check_device(args.device)
    from passnet.cli.plans import plan_record, plan_text
    from passnet.cli.task_data import missing_data
    from passnet.report.plan import Places, read_plan
    from passnet.report.targets import find_target

    target, seeds = find_target(args.name), chosen_seeds(args.seeds)
    places = Places(args.results, args.runs)
    if args.results.resolve() == args.runs.resolve():
        raise ConfigurationError(
            f"--results and --runs are both {args.runs}: give two folders, since results are "
            "copies of runs without their weights"
        )
    check_folder("--results", places.results, written=False)
    check_folder("--runs", places.runs, written=False)
    check_page("--out", args.out, written=not args.dry_run)
    plan = read_plan(target.presets, seeds, places)
    steps = plan.steps
    if args.dry_run:
        if args.json:
            print_json(plan_record(target, steps, places))
        else:
            print(plan_text(target, plan))
            open_ = [s.experiment.task for s in steps if s.state in ("unfinished", "missing")]
            fetch = missing_data(open_, args.data_dir)
            if fetch:
                print(f"data are missing, so run first: {fetch}")
            print(f"nothing was run; without --dry-run, runs train in {places.runs}")
        return 0
    _check(steps, places)
    from passnet.cli.reproduction import batches

    missing = [step.experiment for step in steps if step.state in ("unfinished", "missing")]
    turns = batches(missing, args.device)
    if not args.quiet:
        print(plan_text(target, plan), file=sys.stderr, flush=True)
    finished = [step.experiment for step in steps if step.state == "finished"]
    status, written = _carry_out(finished, turns, places, args)
    if status == INTERRUPTED:
        return status
    if args.json:
        steps = read_plan(target.presets, seeds, places).steps
        print_json(plan_record(target, steps, places) | {"written": [str(p) for p in written]})
        return status
    print(_rows(target, places))
    if not args.quiet:
        print(f"wrote {' and '.join(map(str, written))}", file=sys.stderr)
    return status


def _check(steps: list[Step], places: Places) -> None:
    """Refuse what would fail only after hours of training."""
    for step in steps:
        if step.state == "blocked":
            raise ConfigurationError(
                f"{step.note}, where {step.experiment.name} seed {step.experiment.seed} belongs: "
                "move it away, or choose other folders with --runs and --results"
            )
        if step.state != "there":
            check_folder("--results", places.result(step.experiment))
        if step.state in ("unfinished", "missing"):
            check_folder("--runs", places.run(step.experiment))
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ConfigurationError("reproduce takes one process: start it without torchrun")


def _carry_out(
    finished: Sequence[Experiment],
    turns: Sequence[Sequence[Experiment]],
    places: Places,
    args: argparse.Namespace,
) -> tuple[int, list[Path]]:
    """Publish what is finished and train the others turn by turn; returns the exit status and the
    files written."""
    from passnet.cli.reproduction import rebuild, train_and_publish
    from passnet.report import publish_run

    for experiment in finished:
        publish_run(places.run(experiment), places.result(experiment))
    # At the start too: a page that cannot be written shows before hours of training.
    written = rebuild(places, args.out, args.benchmarks)
    status = 0
    for together in turns:
        ended = train_and_publish(
            together, places, device=args.device, data_dir=args.data_dir, quiet=args.quiet
        )
        rebuild(places, args.out, args.benchmarks)
        status = max(status, ended)
        if ended == INTERRUPTED:
            break
    return status, written


def _rows(target: Target, places: Places) -> str:
    from passnet.report.groups import group_runs
    from passnet.report.read import find_runs
    from passnet.report.text_tables import sections, text_table

    runs = find_runs([places.results]) if places.results.is_dir() else []
    tables = sections([group for group in group_runs(runs) if group.is_preset])
    wanted = set(target.presets)
    return "\n\n".join(
        text_table(section, width=terminal_width())
        for section in tables
        if wanted & {group.name for group in section.groups}
    )
