"""A stand-in for a GPU: kernel sources compiled by g++ and executed thread by thread on the CPU."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import torch

from passnet.ops.cuda.chip import Chip
from passnet.ops.cuda.compile import read_source
from passnet.ops.cuda.launches import Arguments, Grid, Launches

HERE = Path(__file__).parent
COMPILER = shutil.which("g++") if sys.platform == "linux" else None
FLAGS = ("-std=c++17", "-shared", "-fPIC", "-U_FORTIFY_SOURCE")
KERNEL_FLAGS = (
    "-O0", "-w", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing",
    "-ffp-contract=off", "-nostdlib", "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error",
)  # fmt: skip
IN_ORDER, BACKWARDS = 0, 1
"""Orders in which threads run; every other number is the seed of a shuffle."""
LEAST_SHARED = 101376
"""Bytes that a block may take on every chip served; only scans are fitted into less."""


class EmulationError(RuntimeError):
    """A kernel did what no GPU would finish, or what one would do without a word."""


class _Argument(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("width", ctypes.c_uint),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint),
        ("shared", ctypes.c_uint),
        ("together", ctypes.c_uint),
        ("order", ctypes.c_uint64),
    )


def _argument(given: torch.Tensor | int | None) -> _Argument:
    if not isinstance(given, torch.Tensor):
        return _Argument(given or 0, 0, 0)
    if not given.is_contiguous():
        raise EmulationError(f"kernels read dense tensors, not strides {given.stride()}")
    if given.is_neg():
        raise EmulationError("kernels read what lies in memory, and there are the negatives")
    return _Argument(given.data_ptr(), given.numel() * given.element_size(), given.element_size())


class EmulatedKernel(Launches):
    """One entry point of a compiled source."""

    def __init__(self, chip: Emulator, library: ctypes.CDLL, name: str, shared: int) -> None:
        self.chip, self.name, self.shared = chip, name, shared
        self.function = library[f"launch_{name}"]
        self.function.restype = ctypes.c_char_p

    def start(self, grid: Grid, threads: int, arguments: Arguments, cooperative: bool) -> None:
        if cooperative and grid[0] * grid[1] * grid[2] > self.chip.processors:
            raise EmulationError(f"{grid} blocks cannot all run on {self.chip.processors}")
        scan = self.name.startswith("scan")
        if self.shared > (self.chip.shared_limit if scan else LEAST_SHARED):
            raise EmulationError(f"{self.shared} bytes of shared memory are too many")
        how = _Launch((ctypes.c_uint * 3)(*grid), threads, self.shared, cooperative)
        how.order = self.chip.order
        given = (_Argument * len(arguments))(*map(_argument, arguments))
        failure = self.function(ctypes.byref(how), given, len(arguments))
        if failure is not None:
            raise EmulationError(f"{self.name}: {failure.decode()}")


class Emulator(Chip):
    """A chip of the given size. Shared memory starts as NaN; no access outside of a tensor, no
    barrier that some threads miss and no wait without end goes unreported."""

    def __init__(
        self, folder: Path, *, processors: int = 8, shared_limit: int = 232448, order: int = 0
    ) -> None:
        self.folder, self.order = folder, order
        self.processors, self.shared_limit = processors, shared_limit

    def kernel(
        self, source: str, name: str, *, options: tuple[str, ...], shared: int
    ) -> EmulatedKernel:
        return EmulatedKernel(self, _library(source, options, self.folder), name, shared)


@cache
def _library(source: str, options: tuple[str, ...], folder: Path) -> ctypes.CDLL:
    """The compiled text, with this folder's twin in the place of `ptx.cuh`."""
    ours = read_source("ptx.cuh")
    assert source.count(ours) == 1, "kernels include ptx.cuh once"
    text = source.replace(ours, '#include "cuda.h"\n')
    found = re.findall(r"__global__ void [^(]*\([^)]*\)\s*(\w+)\(", text)
    text += "\n" + "\n".join(f"EMULATED({name})" for name in found) + "\n"
    runtime = _build((HERE / "grid.cpp").read_text(encoding="utf-8"), ("-O2",), folder)
    libraries = (str(runtime), "-lm", "-lc", "-lgcc")
    return ctypes.CDLL(str(_build(text, (*KERNEL_FLAGS, *options, *libraries), folder)))


def _build(text: str, options: tuple[str, ...], folder: Path) -> Path:
    """A shared library of one text, made once in a folder."""
    headers = [path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.h"))]
    key = hashlib.sha256("\0".join([text, *options, *headers]).encode()).hexdigest()[:24]
    result = folder / f"{key}.so"
    if result.exists():
        return result
    assert COMPILER is not None
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        code, made = Path(place) / "kernel.cpp", Path(place) / "result"
        code.write_text(text, encoding="utf-8")
        command = [COMPILER, *FLAGS, f"-I{HERE}", str(code), *options, "-o", str(made)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            raise EmulationError(f"g++ refused a kernel:\n{run.stderr[-4000:]}")
        # A rename is atomic, so that processes can share the folder.
        os.replace(code, result.with_suffix(".cpp"))
        os.replace(made, result)
    return result
