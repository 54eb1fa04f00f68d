"""`passnet train`: run a preset, or go on with a run."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from passnet.cli.choice import add_names, add_overrides
from passnet.cli.data import add_data_dir
from passnet.cli.device import add_device, check_device
from passnet.cli.errors import INTERRUPTED, failure_status
from passnet.cli.helping import Paragraphs
from passnet.cli.numbers import count_of, minutes, whole_number
from passnet.cli.signals import leaving_at_once
from passnet.cli.streams import terminal_width
from passnet.cli.tables import print_json, thousands
from passnet.cli.training_plans import training_plans
from passnet.cli.wording import as_options, in_options
from passnet.config import Experiment

if TYPE_CHECKING:
    from passnet.training import Result

_EPILOG = """\
A run is a folder: experiment.json, metrics.jsonl, checkpoints/, result.json. The same command
resumes it, after Ctrl-C or a closed terminal where it stopped, after a kill or a power cut from its
newest checkpoint, and gives the same numbers as an uninterrupted run. Checkpoints are written after
10, 20, 40, 80 and 160 seconds, then every two minutes. A larger --set updates=... continues a run,
too, unless it depends on the total number (a cosine schedule, an average over the last third).

  passnet train quick/copy
  passnet train copy-500/lrd-gru-128-50 --seeds 0..4
  passnet train psmnist/lrd-gru-128-24 psmnist/lr-gru-128-24 --seeds 0..2
  passnet train psmnist/lrd-gru-256-24 --set batch_size=128 model.size=512
  passnet train quick/character-stream --text my.txt
  passnet train char-lm/gru-1000-dropout --minutes 30
  torchrun --nproc-per-node 2 -m passnet train quick/copy

"chance" is the score of a model without memory: for digits one that knows how frequent each is, for
text one that knows only the previous character.

Exit status: 0 done, 1 the run failed, 2 a wrong argument or missing data, 130 stopped by a signal.
"""

_HEADER = ("run", "metric", "test", "chance", "paper", "params", "updates", "time", "on")
_SPARE = ("on", "params", "time", "updates", "metric")


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "train",
        help="train presets, or resume runs",
        description="Train presets as the paper did, or resume the run in a folder.",
        epilog=_EPILOG,
        formatter_class=Paragraphs,
    )
    add_names(
        parser,
        nargs="+",
        metavar="NAME|FOLDER",
        help="a preset, or the folder of a run; several train side by side on a GPU",
    )
    add_overrides(parser)
    parser.add_argument(
        "--seed", type=whole_number, help="seed of the run (the preset's, usually 0)"
    )
    parser.add_argument(
        "--seeds",
        metavar="SEEDS",
        help="one run per seed, side by side on a GPU: a range or a list such as 0..4 or 1,5,7; "
        "for one seed use --seed",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="folder of the run (default runs/NAME/seed-N); with several runs, their common folder",
    )
    add_data_dir(parser)
    add_device(parser)
    parser.add_argument(
        "--backend",
        choices=("auto", "cuda", "cpu", "eager", "reference"),
        default="auto",
        help="the scan backend to use; if it cannot run the model, the error says why",
    )
    parser.add_argument(
        "--at-once",
        type=count_of("runs, such as 6"),
        default=6,
        metavar="N",
        help="how many runs share a GPU at a time (6); the others wait. On a CPU they run one "
        "after another",
    )
    parser.add_argument(
        "--minutes",
        type=minutes,
        metavar="MINUTES",
        help="stop after the last evaluation within this many minutes of training, such as 9; the "
        "same command with more, or without this option, resumes",
    )
    parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    parser.add_argument("--quiet", action="store_true", help="show only warnings while it runs")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and print the result beside chance and the paper."""
    with leaving_at_once():
        check_device(args.device)
        plans = training_plans(args)
        import passnet.cli.display
        import passnet.training.together  # noqa: F401
    with leaving_at_once("the same command resumes from the newest checkpoint"):
        return _train(plans, args)


def _train(plans: list[tuple[Experiment, Path]], args: argparse.Namespace) -> int:
    from passnet.cli.display import watching
    from passnet.training import Interrupted, RunError, train, train_together

    options = {
        "device": args.device,
        "backend": args.backend,
        "data_dir": args.data_dir,
        "tensorboard": args.tensorboard,
        "minutes": args.minutes,
    }
    with watching(quiet=args.quiet) as listener_for, in_options():
        if len(plans) == 1:
            ((experiment, folder),) = plans
            found = [train(experiment, folder, listener=listener_for(experiment.name), **options)]
        else:
            found = train_together(
                [experiment for experiment, _ in plans],
                [folder for _, folder in plans],
                listeners=[listener_for(f"{e.name} seed {e.seed}") for e, _ in plans],
                at_once=args.at_once,
                **options,
            )
    failed = []
    for (experiment, _), result in zip(plans, found, strict=True):
        if isinstance(result, RunError):
            failed.append(result)
            which = f"{experiment.name} seed {experiment.seed}: " if len(plans) > 1 else ""
            print(f"passnet: {which}{as_options(result)}", file=sys.stderr)
    if any(isinstance(error, Interrupted) for error in failed):
        return INTERRUPTED
    pairs = [(p[1], r) for p, r in zip(plans, found, strict=True) if not isinstance(r, RunError)]
    _print_results(plans, pairs, args)
    return failure_status(failed)


def _print_results(
    plans: list[tuple[Experiment, Path]],
    pairs: list[tuple[Path, Result]],
    args: argparse.Namespace,
) -> None:
    if os.environ.get("RANK", "0") != "0" or not pairs:
        return
    if args.json:
        records = [result.record() for _, result in pairs]
        print_json(records if args.seeds or len(plans) > 1 else records[0])
        return
    from passnet.report.columns import columns
    from passnet.report.metric_words import metric_words
    from passnet.report.numbers import duration, score, whole

    rows = [
        (
            str(folder),
            metric_words(result.metric),
            *(
                score(result.metric, value)
                for value in (result.value, result.chance.get(result.metric), result.paper_value)
            ),
            thousands(result.parameters),
            whole(result.updates),
            duration(result.seconds),
            f"{result.device}, {result.backend}",
        )
        for folder, result in pairs
    ]
    print(columns(_HEADER, rows, width=terminal_width(), spare=_SPARE))
    for folder, result in pairs:
        if result.cut_short:
            more = "resume it with more minutes, or without --minutes"
            print(f"{folder} ended early, {result.stopped}: {more}")
    for note in dict.fromkeys(note for experiment, _ in plans for note in experiment.notes):
        print(f"note: {note}")
    if terminal_width() is not None:
        folders = [folder if len(pairs) == 1 else folder.parent for folder, _ in pairs]
        places = dict.fromkeys(map(str, folders))
        print(f"Next: {shlex.join(['passnet', 'report', *places])}")
