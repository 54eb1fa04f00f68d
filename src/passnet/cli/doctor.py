"""`passnet doctor`: versions, devices, and which backends can run and why not."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from passnet import __version__
from passnet.cli.errors import FAILED
from passnet.cli.packages import missing_package
from passnet.cli.signals import load_torch
from passnet.cli.tables import print_json, table

if TYPE_CHECKING:
    import torch

    from passnet import GRU, LSTM, Highway, UnitaryRNN

_PACKAGES = ("torch", "triton", "numpy", "jaxtyping", "safetensors", "rich")
_EXTRAS = {
    "tensorboard": (("tensorboard",), "`passnet train --tensorboard`"),
    "report": (
        ("altair", "jinja2", "vl-convert-python"),
        "`passnet report --out`, `passnet reproduce` and `passnet bench --plot`",
    ),
    "onnx": (("onnx", "onnx-ir", "onnxscript", "onnxruntime"), "`passnet export`"),
}
"""Packages that only some commands need, by the name with which pip installs them."""
_ABSENT = "not installed"


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "doctor",
        help="show versions, devices and which backends can run here",
        description="Show which backend runs GRUs and LSTMs here and whether it is fast, what this "
        "machine has, and for each device and cell which backends can run a layer (a GRU, LSTM or "
        "Highway network with low-rank-plus-diagonal matrices, a UnitaryRNN), or why not. The exit "
        "status is 1 if PyTorch or another package that passnet needs cannot be imported.",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was found, or the versions alone and why there is no more."""
    versions = _versions()
    try:
        load_torch()
        devices, backends = _devices(), _backends()
    except (ImportError, OSError) as error:
        fault = missing_package(error) if isinstance(error, ImportError) else None
        fault = fault or f"passnet's packages cannot be loaded ({error}): install them again"
        print_json({"versions": versions}) if args.json else print(_versions_table(versions))
        print(f"passnet: {fault}", file=sys.stderr)
        return FAILED
    if args.json:
        print_json({"versions": versions, "devices": devices, "backends": backends})
        return 0
    header = ("device", "cell", "dtype", "backend", "can run a 128-unit layer")
    parts = (
        "\n".join(_engines(backends)),
        "\n".join((_versions_table(versions), *_missing_extras(versions))),
        table(("device", "what it is"), list(devices.items())),
        table(header, [tuple(row.values()) for row in backends]),
    )
    print("\n\n".join(parts))
    return 0


def _engines(rows: list[dict[str, str]]) -> Iterator[str]:
    """For each device a line on who runs ordinary GRUs and LSTMs, and whether that is fast."""
    for device, place, fast in (
        ("cpu", "CPU", "compiled scan"),
        ("cuda", "GPU", "compiled kernels"),
    ):
        cells: dict[str, list[str]] = {}
        for cell in ("GRU", "LSTM"):
            of = (device, cell, "float32", "yes")
            keys = ("device", "cell", "dtype", "can_run")
            able = [row["backend"] for row in rows if tuple(row[key] for key in keys) == of]
            if able:
                cells.setdefault(able[0], []).append(cell)
        for engine, names in cells.items():
            slow = f"slow: the {place}'s {fast} cannot run, as the last table says"
            words = fast if engine == device else slow
            yield f"{' and '.join(names)} in float32 on the {place} run on: {engine} ({words})"


def _missing_extras(versions: dict[str, str]) -> Iterator[str]:
    """For each extra that is not installed, or not all of it, a line on what needs it."""
    for extra, (packages, commands) in _EXTRAS.items():
        missing = [name for name in packages if versions[name] == _ABSENT]
        if missing:
            yield f"{commands} need{'' if ' and ' in commands else 's'} {', '.join(missing)}: " + (
                f"pip install '.[{extra}]' in passnet's folder"
            )
    if versions["triton"] == _ABSENT:
        yield "triton is only needed for torch.compile on a GPU, not for passnet's own kernels"


def _versions_table(versions: dict[str, str]) -> str:
    return table(("package", "version"), list(versions.items()))


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"passnet": __version__, "python": platform.python_version()}
    for name in (*_PACKAGES, *(name for packages, _ in _EXTRAS.values() for name in packages)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = _ABSENT
    return found


def _devices() -> dict[str, str]:
    import torch

    from passnet.training.machine import processor_name, thread_count

    found = {"cpu": f"{processor_name()}, {thread_count()}"}
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found[f"cuda:{index}"] = (
            f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, "
            f"compute capability {properties.major}.{properties.minor}"
        )
    return found


def _backends() -> list[dict[str, str]]:
    import torch

    from passnet import Highway

    rows = []
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for layer, dtype in _layers(device):
            width = layer.size if isinstance(layer, Highway) else 4
            reasons = layer.explain_backends(torch.zeros(2, 2, width, device=device, dtype=dtype))
            rows += [
                {
                    "device": device,
                    "cell": type(layer).__name__,
                    "dtype": str(dtype).removeprefix("torch."),
                    "backend": name,
                    "can_run": "yes" if reason is None else f"no: {reason}",
                }
                for name, reason in reasons.items()
            ]
    return rows


def _layers(device: str) -> Iterator[tuple[GRU | LSTM | UnitaryRNN | Highway, torch.dtype]]:
    """One layer of each kind and dtype; complex units have no bfloat16."""
    import torch

    import passnet

    matrix = passnet.LowRankPlusDiagonal(24)
    for kind in (passnet.GRU, passnet.LSTM):
        for dtype in (torch.float32, torch.bfloat16):
            yield kind(4, 128, matrix=matrix, device=device, dtype=dtype), dtype
    yield passnet.UnitaryRNN(4, 128, device=device, dtype=torch.float32), torch.float32
    yield passnet.Highway(128, matrix=matrix, device=device, dtype=torch.float32), torch.float32
