"""What `passnet train` is to train, and in which folders."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from passnet.cli.choice import chosen_experiment, chosen_names
from passnet.cli.places import check_folder, check_run, no_run
from passnet.cli.seeds import listed_seeds
from passnet.config import ConfigurationError, Experiment
from passnet.config.run_folder import EXPERIMENT_FILE
from passnet.experiments import names


def training_plans(args: argparse.Namespace) -> list[tuple[Experiment, Path]]:
    """Which experiments are to run in which folders."""
    if args.seeds is not None and args.seed is not None:
        raise ConfigurationError("--seed and --seeds: give only one of them")
    seeds = listed_seeds(args.seeds) if args.seeds else [args.seed]
    plans = []
    chosen = list(dict.fromkeys(chosen_names(args)))
    for name in chosen:
        if (Path(name) / EXPERIMENT_FILE).is_file():
            plans.append(_saved(name, args))
            continue
        if name not in names() and Path(name).is_dir():
            raise ConfigurationError(f"{no_run(Path(name))}, or a preset from `passnet list`")
        if name not in names() and name.startswith(("runs/", "./", "/", "../", "~")):
            check_run(Path(name))
        preset = chosen_experiment(name, args)
        for seed in seeds:
            experiment = preset if seed is None else dataclasses.replace(preset, seed=seed)
            plans.append((experiment, _folder(experiment, args, several=len(chosen) > 1)))
    _check_folders([folder for _, folder in plans])
    return plans


def _folder(experiment: Experiment, args: argparse.Namespace, *, several: bool) -> Path:
    """The run's folder; `several` says whether other presets are trained beside it."""
    folder = Path(args.out) if args.out else Path("runs")
    if not args.out or several:
        folder = folder / experiment.name
    alone = args.out and not args.seeds and not several
    folder = folder if alone else folder / f"seed-{experiment.seed}"
    if args.out:
        check_folder("--out", folder, written=False)
    return folder


def _check_folders(given: Sequence[Path]) -> None:
    """Raise where two runs would be in one folder, or one within another."""
    folders = [folder.resolve() for folder in given]
    twice = next((folder for folder in folders if folders.count(folder) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"two of these runs are in {twice}: name each once")
    around = (place for folder in folders for place in folder.parents)
    inside = next((place for place in around if (place / EXPERIMENT_FILE).is_file()), None)
    if inside is not None:
        raise ConfigurationError(
            f"{inside} is itself the folder of a run: give a folder outside it"
        )


def _saved(name: str, args: argparse.Namespace) -> tuple[Experiment, Path]:
    """The run in a folder, which resumes as it began."""
    other_seed = "name its preset; each seed has its own folder"
    for option, value, remedy in (
        (
            "--set",
            args.overrides,
            f"name its preset, with --out {name} and --set updates=... to give it more updates, "
            "and with another --out for all other changes",
        ),
        ("--text", args.text, "name its preset, with another --out for another text"),
        ("--seed", args.seed, other_seed),
        ("--seeds", args.seeds, other_seed),
        ("--out", args.out, "leave out --out, or name its preset to train it elsewhere too"),
    ):
        if value not in (None, []):
            raise ConfigurationError(
                f"{option}: {name} is the folder of a run, which resumes as it began: {remedy}"
            )
    from passnet.training import load_run

    folder = Path(name)
    return load_run(folder).experiment, folder
