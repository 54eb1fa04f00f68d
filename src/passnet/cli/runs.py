"""`passnet evaluate` and `passnet sample`: using what a run has learned."""

from __future__ import annotations

import argparse
from pathlib import Path

from passnet.cli.data import add_data_dir
from passnet.cli.device import add_device, check_device
from passnet.cli.numbers import count_of, seed, temperature
from passnet.cli.places import check_run
from passnet.cli.signals import load_torch
from passnet.cli.tables import print_json, table


def add(commands) -> None:
    """Register both commands."""
    evaluate = commands.add_parser(
        "evaluate",
        help="score a run's selected parameters",
        description="Score the selected parameters of a run, finished or not, on one split. "
        "Chance is the score of a model without memory: for digits one that knows how frequent "
        "each is, for text one that knows only the previous character.",
    )
    evaluate.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    evaluate.add_argument("--split", choices=("valid", "test"), default="test")
    add_device(evaluate)
    add_data_dir(evaluate)
    evaluate.add_argument("--json", action="store_true", help="JSON instead of a table")
    evaluate.set_defaults(run=_evaluate)

    sample = commands.add_parser(
        "sample",
        help="write text with a character model",
        description="Continue a prompt with the character model of a run, one step at a time.",
    )
    sample.add_argument("run_folder", metavar="RUN", help="the folder of a character run")
    sample.add_argument("--prompt", default="", help="the beginning of the text")
    sample.add_argument(
        "--length",
        type=count_of("characters, such as 400", low=0),
        default=400,
        help="characters to write (400)",
    )
    sample.add_argument(
        "--temperature",
        type=temperature,
        default=0.8,
        help="0 always takes the likeliest character (0.8)",
    )
    sample.add_argument("--seed", type=seed, default=0, help="seed of the random draws (0)")
    add_device(sample)
    sample.add_argument("--json", action="store_true", help="print the text as a JSON string")
    sample.set_defaults(run=_sample)


def _evaluate(args: argparse.Namespace) -> int:
    _check(args)
    load_torch()
    from passnet.training import build_task, evaluate, load_run

    scores = evaluate(args.run_folder, split=args.split, device=args.device, data_dir=args.data_dir)
    task = build_task(load_run(args.run_folder).experiment.task, data_dir=args.data_dir)
    chance = task.chance(args.split)
    if args.json:
        print_json(
            {"run": args.run_folder, "split": args.split, "scores": scores, "chance": chance}
        )
        return 0
    from passnet.report.metric_words import metric_words
    from passnet.report.numbers import score

    rows = [
        (metric_words(name), score(name, value), score(name, chance.get(name)))
        for name, value in scores.items()
    ]
    print(table((f"{args.split} metric", "value", "chance"), rows))
    return 0


def _sample(args: argparse.Namespace) -> int:
    _check(args)
    load_torch()
    from passnet.training import stream_text

    drawn = stream_text(
        args.run_folder,
        args.prompt,
        length=args.length,
        temperature=args.temperature,
        seed=args.seed,
        device=args.device,
    )
    if args.json:
        print_json(args.prompt + "".join(drawn))
        return 0
    print(args.prompt, end="", flush=True)
    try:
        for character in drawn:
            print(character, end="", flush=True)
    finally:  # also where Ctrl-C ends it
        print()
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse what needs no PyTorch to be refused."""
    check_run(Path(args.run_folder))
    check_device(args.device)
