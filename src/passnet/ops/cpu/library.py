"""Finding and loading the compiled scans; without them a sentence says why."""

from __future__ import annotations

import ctypes
import os
import sysconfig
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from struct import Struct

import torch
from torch import Tensor

FOLDER = Path(__file__).parent
INSTRUCTIONS = ("plain", "avx2", "avx512")
"""Instruction sets by rising width, as `passnet_widest` counts them."""

CELLS = {"gru_after": 0, "gru_before": 1, "lstm": 2}
"""Kinds of cells, as scan.h counts them."""

_NUMBERS = (
    "cell", "is_double", "steps", "batch", "units", "rank", "tied", "mask_count", "hold_width",
    "hold_cell_width", "threads", "width",
)  # fmt: skip
_TENSORS = (
    "drive", "input", "symbols", "weight", "bias", "initial", "initial_cell", "expand", "project",
    "diagonal", "masks", "hold", "hold_cell", "inner_bias", "states", "cells", "kept", "summaries",
    "grad_states", "grad_cells", "grad_drive", "grad_initial", "grad_initial_cell",
)  # fmt: skip


class ScanStruct(ctypes.Structure):
    """`scan_call` of scan.h."""

    _fields_ = [(name, ctypes.c_int64) for name in _NUMBERS] + [
        (name, ctypes.c_void_p) for name in _TENSORS
    ]


step_tensors = Struct("2q7P").pack
"""`step_tensors` of scan.h, in the order of its fields; packing takes less than a structure."""


class FactorStruct(ctypes.Structure):
    """`factor_gradients` of scan.h."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("ahead", "grad_expand", "grad_project", "grad_diagonal", "grad_inner")
    ]


class Library:
    """The compiled scans, at one instruction set; by default the widest this machine has."""

    def __init__(self, loaded: ctypes.CDLL, instructions: str | None = None) -> None:
        self._loaded = loaded
        self._scan = loaded.passnet_scan
        self._scan.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._scan.restype = ctypes.c_int64
        self._step = loaded.passnet_step
        self._step.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        self._step.restype = ctypes.c_int64
        self._factors = loaded.passnet_factor_gradients
        self._inputs = loaded.passnet_input_gradients
        self._features = loaded.passnet_features_gradient
        for gradients, count in ((self._factors, 2), (self._inputs, 3), (self._features, 2)):
            gradients.argtypes = (*[ctypes.c_void_p] * count, ctypes.c_int64)
            gradients.restype = ctypes.c_int64
        loaded.passnet_widest.restype = ctypes.c_int64
        _share_threads(loaded)
        widest = int(loaded.passnet_widest())
        self.supported = INSTRUCTIONS[: widest + 1]
        self.instructions = instructions or self.supported[-1]
        if self.instructions not in self.supported:
            known = ", ".join(repr(name) for name in self.supported)
            raise ValueError(f"instructions={instructions!r}: this machine has {known}")
        self._level = INSTRUCTIONS.index(self.instructions)

    def using(self, instructions: str) -> Library:
        """The same scans at another instruction set of this machine."""
        return Library(self._loaded, instructions)

    def run(self, call: ScanStruct, *, backward: bool) -> None:
        """Compute one scan; the struct's tensors must outlive the call."""
        if self._scan(ctypes.addressof(call), backward, self._level):
            raise MemoryError(NO_MEMORY.format(call.units))

    def step(self, cell: ScanStruct) -> Callable[[bytes], int]:
        """A cell's step, which takes step_tensors; it returns 0, or 1 when memory ran out."""
        return partial(self._step, bytes(cell), self._level)

    def factor_gradients(self, call: ScanStruct, found: FactorStruct) -> None:
        """Compute the gradients of low-rank factors behind the backward scan of a call."""
        if self._factors(ctypes.addressof(call), ctypes.addressof(found), self._level):
            raise MemoryError(NO_MEMORY.format(call.units))

    def input_gradients(self, call: ScanStruct, weight: Tensor, bias: Tensor | None) -> None:
        """Compute those of the matrices and biases of features."""
        to_bias = None if bias is None else bias.data_ptr()
        if self._inputs(ctypes.addressof(call), weight.data_ptr(), to_bias, self._level):
            raise MemoryError(NO_MEMORY.format(call.units))

    def features_gradient(self, call: ScanStruct, features: Tensor) -> None:
        """Compute that of features."""
        if self._features(ctypes.addressof(call), features.data_ptr(), self._level):
            raise MemoryError(NO_MEMORY.format(call.units))


def as_it_lies(tensor: Tensor) -> Tensor:
    """The tensor with its numbers row after row and with their own signs: all that C reads."""
    return tensor.contiguous().resolve_neg()


def load(folder: Path = FOLDER) -> Library | str:
    """The library in `folder`, or a sentence saying why there is none."""
    own = f"_scan{sysconfig.get_config_var('EXT_SUFFIX')}"
    found = sorted(folder.glob("_scan*.so"), key=lambda path: path.name != own)
    if not found:
        return (
            "the compiled CPU scan was not built when passnet was installed: there was no C "
            "compiler, or compiling failed; have gcc or clang on the path and install passnet "
            "again with `pip install -v`, which shows what the compiler says"
        )
    reasons = []
    for path in found:
        opened = _open(path)
        if isinstance(opened, Library):
            return opened
        reasons.append(opened)
    return reasons[0]


def _open(path: Path) -> Library | str:
    """The library in a file, or a sentence saying why it is not used."""
    try:
        loaded = ctypes.CDLL(str(path))
        sources = loaded.passnet_sources
    except (OSError, AttributeError) as error:
        return f"the compiled CPU scan {path.name} cannot be loaded ({error}): {_AGAIN}"
    sources.restype = ctypes.c_char_p
    if sources().decode() != _digest():
        return f"the compiled CPU scan {path.name} was built from other sources: {_AGAIN}"
    return Library(loaded)


def _digest() -> str:
    """Of the C files here, as setup.py gives it to the compiler."""
    sources = sorted(FOLDER.glob("*.[ch]"))
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _share_threads(loaded: ctypes.CDLL) -> None:
    """Let the library use PyTorch's own threads where they are GNU OpenMP's or speak its way."""
    folder = Path(torch.__file__).parent / "lib"
    for path in sorted((*folder.glob("libgomp*"), *folder.glob("libiomp5*"))):
        try:
            runtime = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            loaded.passnet_use_team(ctypes.cast(runtime.GOMP_parallel, ctypes.c_void_p))
        except (OSError, AttributeError):
            continue
        return


_AGAIN = "install passnet again to rebuild it"
NO_MEMORY = "no memory for the scratch of a scan over {} units: free some, or use backend='eager'"


_installed = load()


def installed() -> Library | str:
    """What `load` found beside this file when passnet was imported."""
    return _installed
