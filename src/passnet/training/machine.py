"""Where a run happened: versions, commit and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import safetensors
import torch

import passnet


@cache
def commit() -> str | None:
    """The commit of the source this process runs, `-dirty` when changed, or None outside git."""
    here = Path(passnet.__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def versions() -> dict[str, str | None]:
    """Versions of everything that computes."""
    return {
        "passnet": passnet.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "safetensors": safetensors.__version__,
        "cuda": torch.version.cuda,
    }


def machine(device: torch.device) -> dict[str, Any]:
    """What the run computes on."""
    return {
        "system": platform.system(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device_name(device),
    }


def processor_name() -> str:
    """What the processor calls itself, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def device_name(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({thread_count()})"


def thread_count() -> str:
    """How many threads compute on the CPU, in words."""
    count = torch.get_num_threads()
    return f"{count} thread{'' if count == 1 else 's'}"
