"""`passnet bench`: our layers against torch.nn on the user's own machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from passnet.cli.device import add_device, check_device
from passnet.cli.errors import USAGE
from passnet.cli.helping import Paragraphs
from passnet.cli.numbers import count_of
from passnet.cli.places import check_file
from passnet.cli.signals import load_torch
from passnet.cli.tables import print_json, table

_DESCRIPTION = """\
Times passnet's layers, torch.nn.GRU, torch.nn.LSTM and torch.nn.LSTM(proj_size=d), and a PyTorch
loop, plain and with its step compiled, in one run. On a GPU, layers are timed in each precision and
also as CUDA graphs; in float32 also with the backward in the calling thread, and wrapped by
torch.cuda.make_graphed_callables.

First, outputs and all gradients of passnet's layers are checked against a plain loop in float64
with the same weights, for each backend and precision that is timed; if one is wrong, the command
stops. Layers of torch.nn compute another function and are not checked.

The last two columns are the ms of a row divided by passnet's in the same case and pass: above 1x
passnet is faster. `/ passnet` uses passnet in float32, called ordinarily; `/ alike` uses passnet
in the row's precision and way of calling, and is empty if that was not timed.
"""


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "bench",
        help="time our layers against torch.nn, side by side",
        description=_DESCRIPTION,
        formatter_class=Paragraphs,
    )
    parser.add_argument(
        "filter", nargs="?", default="", help="only cases whose line contains this text"
    )
    add_device(parser)
    parser.add_argument(
        "--repeats",
        type=count_of("timings, such as 9"),
        default=9,
        help="timings per contender (default 9)",
    )
    parser.add_argument("--quick", action="store_true", help="use an eighth of the steps")
    parser.add_argument(
        "--growth",
        action="store_true",
        help="show that cost is linear: time layers with 1, 2, 4 and 8 times the steps and the "
        "rank, in float32, beside torch.nn's only",
    )
    parser.add_argument("--no-loops", action="store_true", help="leave out the slow Python loops")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write the rows as JSON, after each case"
    )
    parser.add_argument("--commit", help="the commit that was measured, if git cannot tell")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="also plot the timings (.svg, .png, .pdf or .html)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, print, and write what was asked for."""
    _check(args)
    load_torch()
    from passnet.training.distributed import choose_device, current

    place = choose_device(args.device)
    with current(place):
        return _measured(args, "cpu" if place.type == "cpu" else args.device or "cuda")


def _check(args: argparse.Namespace) -> None:
    """Refuse what would fail only after minutes of timing, or once PyTorch is loaded."""
    check_device(args.device)
    for option, path in (("--out", args.out), ("--plot", args.plot)):
        if path is not None:
            check_file(option, path)
    if args.plot is not None:
        from passnet.bench.plot import check_plot

        check_plot(args.plot)


def _measured(args: argparse.Namespace, device: str) -> int:
    from passnet.bench.cases import CPU_CASES, CPU_GROWTH, GPU_CASES, GPU_GROWTH, quick
    from passnet.bench.measure import measure
    from passnet.bench.record import growth, record, write

    if args.growth:
        cases = CPU_GROWTH if device == "cpu" else GPU_GROWTH
    else:
        cases = CPU_CASES if device == "cpu" else GPU_CASES
    known = quick(cases) if args.quick else cases
    cases = [case for case in known if args.filter in case.label]
    if not cases:
        lines = "\n  ".join(case.label for case in known)
        print(
            f"passnet: no case's line contains {args.filter!r}; they are\n  {lines}",
            file=sys.stderr,
        )
        return USAGE
    rows, among = [], "float32" if args.growth else "layers" if args.no_loops else "everyone"
    for case in cases:
        found = measure(
            case,
            device=device,
            repeats=args.repeats,
            among=among,
            steps=not args.growth,
            listener=lambda text: print(text, file=sys.stderr, flush=True),
        )
        rows += found
        content = record(rows, device=device, measured=args.commit)
        if args.out is not None:
            write(content, args.out)
        if not args.json:
            print(f"{_tables(found)}\n", flush=True)
    if args.plot is not None:
        from passnet.bench.plot import draw

        draw(rows, args.plot)
    if args.json:
        print_json(content)
    elif lines := growth(rows):
        print("\n".join(lines))
    return 0


def _tables(rows) -> str:
    """One case: a table for each pass."""
    from passnet.bench.record import ratios

    of = {(ratio["pass"], ratio["contender"]): ratio for ratio in ratios(rows)}
    found: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        ratio = of.get((row.pass_, row.contender), {})
        times = [_times(ratio.get(name)) for name in ("ratio", "like")]
        memory = "-" if row.peak_bytes is None else f"{row.peak_bytes / 2**20:.1f}"
        named = row.backend is None or row.backend in row.contender.split()
        contender = row.contender if named else f"{row.contender} ({row.backend})"
        cells = (contender, f"{row.milliseconds:.3f}", memory, *times)
        found.setdefault(row.pass_, []).append(cells)
    case = rows[0]
    title = f"{case.shape} n={case.n} d={case.d} T={case.T} B={case.B}"
    header = ("ms", "MiB", "/ passnet", "/ alike")
    tables = [table((pass_, *header), cells, right=header) for pass_, cells in found.items()]
    return "\n\n".join((title, *tables))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"
