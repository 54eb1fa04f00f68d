"""The option that names a device, read before PyTorch is loaded."""

from __future__ import annotations

import argparse
import re

from passnet.training.errors import Refused, unknown_device


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where a command computes."""
    parser.add_argument("--device", help="cpu, cuda, cuda:1 …; default a GPU where there is one")


def check_device(wanted: str | None) -> None:
    """Raise for what no device is called; whether it is there, PyTorch says."""
    if wanted is not None and re.fullmatch(r"(cpu|cuda)(:[0-9]+)?", wanted) is None:
        raise Refused(unknown_device(wanted))
