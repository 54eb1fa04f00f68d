"""Binaries to running kernels: launches on torch's stream, one by one or prepared."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Sequence
from functools import cache
from typing import cast

import torch
from torch import Tensor

from passnet.ops.cuda.chain import Chain, Link, Queued
from passnet.ops.cuda.compile import CompileError, cubin, nvrtc
from passnet.ops.cuda.launches import Arguments, Grid, Launches, Numbered, Volley
from passnet.ops.cuda.libcuda import check, context_of, enter, leave, libcuda


@cache
def device_limits(device: int) -> tuple[int, int, str]:
    """Multiprocessors, bytes of shared memory one block may take, and the architecture."""
    properties = torch.cuda.get_device_properties(device)
    arch = f"sm_{properties.major}{properties.minor}"
    return properties.multi_processor_count, properties.shared_memory_per_block_optin, arch


def why_not_compiled(device: int) -> str | None:
    """A sentence why no kernel can be made for a device, or None."""
    arch = device_limits(device)[2]
    if int(arch.removeprefix("sm_")) < 80:
        return f"the CUDA kernels need a GPU of compute capability 8.0 or above, and this is {arch}"
    try:
        nvrtc()
    except CompileError as error:
        return str(error).rstrip(".")
    return None


class Kernel(Launches):
    """One entry point of a compiled source on one device."""

    def __init__(
        self, source: str, name: str, *, device: int, options: tuple[str, ...], shared: int
    ) -> None:
        self.device = device
        self.shared = shared
        self.function = ctypes.c_void_p()
        self._room: _Room | None = None
        made = {"arch": device_limits(device)[2], "options": options}
        before = enter(device)
        try:
            binary = cubin(source, **made)
            try:
                module = _loaded(binary)
            except CompileError:
                # What lay on the disk may be damaged.
                module = _loaded(cubin(source, **made, anew=True))
            check(libcuda().cuModuleGetFunction(ctypes.byref(self.function), module, name.encode()))
            if shared > 48 * 1024:
                maximum_dynamic_shared = 8
                check(libcuda().cuFuncSetAttribute(self.function, maximum_dynamic_shared, shared))
        finally:
            leave(before)

    def attribute(self, number: int) -> int:
        """A CUfunction_attribute, such as 4 (registers) or 3 (local bytes)."""
        value = ctypes.c_int()
        check(libcuda().cuFuncGetAttribute(ctypes.byref(value), number, self.function))
        return value.value

    def start(self, grid: Grid, threads: int, arguments: Arguments, cooperative: bool) -> None:
        """Queue the kernel on torch's current stream."""
        values = [
            0 if a is None else a if type(a) is int else a.data_ptr()  # pyright: ignore
            for a in arguments
        ]
        room = self._room
        if room is None:
            room = self._room = _Room(self.device, [len(values)])
        room.launch(values, [self._queued(grid, threads, room, 0, cooperative)])

    @classmethod
    def together(cls, launches: Sequence[Numbered]) -> Volley:
        kernels = [cast(Kernel, launch.kernel) for launch, _ in launches]
        room = _Room(kernels[0].device, [len(places) for _, places in launches])
        order = [place for _, places in launches for place in places]
        links = [
            Link(kernel.function, launch.grid, launch.threads, kernel.shared, at)
            for kernel, (launch, _), at in zip(kernels, launches, room.parts, strict=True)
        ]
        chain = Chain(kernels[0].device, links, room.stream)
        singly = [
            kernel._queued(launch.grid, launch.threads, room, index)
            for index, (kernel, (launch, _)) in enumerate(zip(kernels, launches, strict=True))
        ]

        def volley(tensors: Sequence[Tensor], numbers: Sequence[int]) -> None:
            values = [0, *[tensor.data_ptr() for tensor in tensors], *numbers]
            room.launch([values[place] for place in order], chain.queued, elsewhere=singly)

        return volley

    def _queued(
        self, grid: Grid, threads: int, room: _Room, index: int, cooperative: bool = False
    ) -> Queued:
        """How the driver is asked, with the arguments that stand in that part of the room."""
        # Without declared types, whose check takes longer than the rest of a call: sizes are C ints
        # as they are, and what is wider has a type of its own.
        place = (self.function, *grid, threads, 1, 1, self.shared, room.stream, room.parts[index])
        if cooperative:
            return libcuda().cuLaunchCooperativeKernel, place
        return libcuda().cuLaunchKernel, (*place, None)


class _Room:
    """Where the arguments of some launches stand when they are queued, eight bytes each."""

    def __init__(self, device: int, counts: Sequence[int]) -> None:
        self._device, self._context = device, context_of(device).value
        self._lock = threading.Lock()
        self._slots = (ctypes.c_uint64 * sum(counts))()
        base = ctypes.addressof(self._slots)
        slots = iter(range(base, base + 8 * sum(counts), 8))
        self.parts = [(ctypes.c_void_p * n)(*itertools.islice(slots, n)) for n in counts]
        """The addresses of each launch's arguments."""
        self.stream, self._current = ctypes.c_void_p(), ctypes.c_void_p()
        self._last_stream: int | None = None
        self._current_at, self._ask = ctypes.byref(self._current), libcuda().cuCtxGetCurrent

    def launch(
        self,
        values: Sequence[int],
        queued: Sequence[Queued],
        *,
        elsewhere: Sequence[Queued] | None = None,
    ) -> None:
        """Queue them on torch's current stream with these arguments.

        `elsewhere` is queued instead where the last launches were on another stream: a chain would
        wait for them, and what does not wait may run beside them.
        """
        status = 0
        # Threads that run one layer share the room.
        with self._lock:
            self._slots[:] = values
            stream = torch._C._cuda_getCurrentRawStream(self._device)  # pyright: ignore
            if elsewhere is not None and stream != self._last_stream:
                queued, self._last_stream = elsewhere, stream
            self.stream.value = stream
            self._ask(self._current_at)
            here = self._current.value == self._context
            before = None if here else enter(self._device)
            try:
                for start, place in queued:
                    status = start(*place)
                    if status:
                        break
            finally:
                if not here:
                    leave(before)
        check(status)


def _loaded(binary: bytes) -> ctypes.c_void_p:
    module = ctypes.c_void_p()
    check(libcuda().cuModuleLoadData(ctypes.byref(module), binary))
    return module
