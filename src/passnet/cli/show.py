"""`passnet show`: everything about one preset."""

from __future__ import annotations

import argparse

from passnet.cli.choice import add_names, add_overrides, chosen_experiment, chosen_names
from passnet.cli.settings import typed_settings
from passnet.cli.signals import load_torch
from passnet.cli.streams import terminal_width
from passnet.cli.tables import print_json, table
from passnet.config import ConfigurationError, Experiment, parameter_counts, to_json


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "show",
        help="show everything about a preset: shapes, counts, settings, backends",
        description="Show the shapes and parameter counts of a preset's model, what the paper "
        "reports, every setting that --set can change, and which backend would run it here.",
    )
    add_names(parser, nargs=1, metavar="NAME", help="a preset from `passnet list`")
    add_overrides(parser)
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the preset."""
    name, *others = chosen_names(args)
    if others:
        raise ConfigurationError(f"got {name} and {', '.join(others)}: show takes one preset")
    experiment = chosen_experiment(name, args)
    load_torch()
    inputs, outputs = _sizes(experiment)
    counts = parameter_counts(experiment.model, inputs, outputs)
    shapes, backends = _network(experiment, inputs, outputs)
    if args.json:
        print_json(
            {
                "experiment": to_json(experiment),
                "parameters_paper": counts.paper,
                "parameters": counts.model,
                "shapes": shapes,
                "backends": backends,
            }
        )
        return 0
    whose = "the paper's" if experiment.protocol == "paper" else "passnet's own"
    print(f"{experiment.name} (protocol: {whose})\n")
    from passnet.cli.preset_text import about, next_steps
    from passnet.report.columns import wrapped

    width = terminal_width()
    print("\n".join(wrapped(text, width) for text in about(experiment)))
    convention = "" if counts.paper is None else f", {counts.paper} by the paper's convention"
    print(f"\nparameters: {counts.model} as built{convention}")
    print(table(("parameter", "shape"), list(shapes.items())))
    print("\nbackends on this machine, fastest first:")
    print(table(("backend", "can run it"), list(backends.items())))
    print("\nsettings (change any with --set 'key=value'):")
    print(table(("key", "value"), list(typed_settings(experiment).items())))
    print("", *next_steps(experiment, args), sep="\n")
    return 0


def _sizes(experiment: Experiment) -> tuple[int, int]:
    """Inputs and outputs of the network, from the text where only it tells."""
    inputs, outputs = experiment.task.inputs, experiment.task.outputs
    if inputs is not None and outputs is not None:
        return inputs, outputs
    from passnet.training.problem import build_task

    task = build_task(experiment.task)
    return task.input_size, task.output_size


def _network(
    experiment: Experiment, inputs: int, outputs: int
) -> tuple[dict[str, str], dict[str, str]]:
    import torch

    from passnet.layers import Highway, UnitaryRNN
    from passnet.layers.recurrent import RecurrentLayer
    from passnet.training.model import build_model

    network = build_model(
        experiment.model, inputs, outputs=outputs, readout="steps", seed=experiment.seed
    )
    shapes = {name: "x".join(map(str, p.shape)) for name, p in network.named_parameters()}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layer = next(
        m for m in network.modules() if isinstance(m, RecurrentLayer | UnitaryRNN | Highway)
    ).to(device)
    width = layer.size if isinstance(layer, Highway) else inputs
    reasons = layer.explain_backends(torch.zeros(2, experiment.batch_size, width, device=device))
    return shapes, {n: "yes" if r is None else f"no: {r}" for n, r in reasons.items()}
