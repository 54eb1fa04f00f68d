"""`passnet doctor`: versions, devices, and which backends can run and why not."""

from __future__ import annotations

import argparse
import platform

from passnet import __version__
from passnet.cli.tables import print_json, table


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "doctor",
        help="versions, devices and which backends can run",
        description="What this machine has, and for each device and cell which backends would run "
        "a low-rank-plus-diagonal layer, or why not.",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was found."""
    found = {"versions": _versions(), "devices": _devices(), "backends": _backends()}
    if args.json:
        print_json(found)
        return 0
    print(table(("package", "version"), list(found["versions"].items())))
    print()
    print(table(("device", "what it is"), list(found["devices"].items())))
    print()
    header = ("device", "cell", "dtype", "backend", "can run a 128-unit layer")
    print(table(header, [tuple(row.values()) for row in found["backends"]]))
    return 0


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"passnet": __version__, "python": platform.python_version()}
    for name in ("torch", "triton", "numpy", "safetensors", "rich", "tensorboard"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _devices() -> dict[str, str]:
    import torch

    found = {
        "cpu": f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    }
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found[f"cuda:{index}"] = (
            f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, "
            f"compute capability {properties.major}.{properties.minor}"
        )
    return found


def _backends() -> list[dict[str, str]]:
    import torch

    import passnet

    rows = []
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for kind in (passnet.GRU, passnet.LSTM):
            for dtype in (torch.float32, torch.bfloat16):
                layer = kind(
                    4, 128, matrix=passnet.LowRankPlusDiagonal(24), device=device, dtype=dtype
                )
                reasons = layer.explain_backends(torch.zeros(2, 2, 4, device=device, dtype=dtype))
                rows += [
                    {
                        "device": device,
                        "cell": kind.__name__,
                        "dtype": str(dtype).removeprefix("torch."),
                        "backend": name,
                        "can_run": "yes" if reason is None else f"no: {reason}",
                    }
                    for name, reason in reasons.items()
                ]
    return rows
