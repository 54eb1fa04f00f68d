"""`passnet export`: what a run has learned as a file for programs without PyTorch."""

from __future__ import annotations

import argparse
from pathlib import Path

from passnet.cli.data import add_data_dir
from passnet.cli.places import check_file, check_run
from passnet.cli.signals import load_torch
from passnet.cli.tables import print_json, table


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "export",
        help="write a run's model as an ONNX file",
        description="Write a run's model with its selected parameters, finished or not, as an ONNX "
        "file. ONNX Runtime and others run it without PyTorch, for any number of steps and "
        "sequences. The file is only written if ONNX Runtime gives the same numbers. A character "
        "model takes a state and returns the next one (start with zeros), so that it can read a "
        "text in pieces; its symbols are in the file's metadata. Needs: pip install "
        "'.[onnx]' in passnet's folder.",
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the file, such as model.onnx"
    )
    add_data_dir(parser)
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file and show its inputs and outputs."""
    check_run(Path(args.run_folder))
    check_file("--out", args.out, replaced=True)
    load_torch()
    from passnet.export import export_onnx
    from passnet.training import program_of

    program = program_of(args.run_folder, data_dir=args.data_dir)
    found = export_onnx(
        program.module,
        program.example,
        args.out,
        input_names=program.input_names,
        output_names=program.output_names,
        metadata=program.facts,
    )
    if args.json:
        print_json({"file": str(args.out), "inputs": found.inputs, "outputs": found.outputs})
        return 0
    sides = {"input": found.inputs, "output": found.outputs}
    rows = [
        (side, name, " x ".join(map(str, shape)))
        for side, shapes in sides.items()
        for name, shape in shapes.items()
    ]
    print(table(("", "name", "shape"), rows))
    print(f"\n{args.out} ({args.out.stat().st_size:,} bytes): ONNX Runtime agrees with PyTorch")
    return 0
