"""The option that names a device, read before PyTorch is loaded."""

from __future__ import annotations

import argparse
import re

from passnet.training.errors import Refused, unknown_device


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where a command computes."""
    parser.add_argument("--device", help="cpu, cuda, cuda:1 …; default a GPU if there is one")


def check_device(wanted: str | None) -> None:
    """Raise if no device has such a name; PyTorch says whether it exists."""
    if wanted is not None and re.fullmatch(r"(cpu|cuda)(:[0-9]+)?", wanted) is None:
        raise Refused(unknown_device(wanted))
