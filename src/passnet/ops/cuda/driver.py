"""Binaries to running kernels: the CUDA driver, and launches on torch's stream."""

from __future__ import annotations

import ctypes
import threading
from functools import cache

import torch

from passnet.ops.cuda.compile import CompileError, cubin, nvrtc


@cache
def _driver() -> ctypes.PyDLL:
    # Calls are short: to hand the interpreter's lock over and take it back would take longer.
    return ctypes.PyDLL("libcuda.so.1")


def _check_driver(status: int) -> None:
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise CompileError(f"CUDA driver error {status}: {(text.value or b'unknown').decode()}")


@cache
def _context(device: int) -> ctypes.c_void_p:
    torch.cuda.current_stream(device)  # initialises torch's primary context
    _check_driver(_driver().cuInit(0))
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    _check_driver(_driver().cuDeviceGet(ctypes.byref(handle), device))
    _check_driver(_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle))
    return context


def _enter(device: int) -> ctypes.c_void_p | None:
    """Makes a device's context the thread's; the one before, for `_leave`, if it was another."""
    before = ctypes.c_void_p()
    _driver().cuCtxGetCurrent(ctypes.byref(before))
    context = _context(device)
    if before.value == context.value:
        return None
    _check_driver(_driver().cuCtxSetCurrent(context))
    return before


def _leave(before: ctypes.c_void_p | None) -> None:
    if before is not None:
        _check_driver(_driver().cuCtxSetCurrent(before))


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


class Kernel:
    """One entry point of a compiled source on one device."""

    def __init__(
        self, source: str, name: str, *, device: int, options: tuple[str, ...], shared: int
    ) -> None:
        self.device = device
        self.shared = shared
        self.function = ctypes.c_void_p()
        self._slots = None
        self._lock = threading.Lock()
        self._stream, self._current = ctypes.c_void_p(), ctypes.c_void_p()
        self._current_at, self._context = ctypes.byref(self._current), _context(device).value
        driver = _driver()
        self._ask, self._start = driver.cuCtxGetCurrent, driver.cuLaunchKernel
        self._together = driver.cuLaunchCooperativeKernel
        made = {"arch": device_limits(device)[2], "options": options}
        before = _enter(device)
        try:
            binary = cubin(source, **made)
            try:
                module = _loaded(binary)
            except CompileError:
                # What lay on the disk may be damaged.
                module = _loaded(cubin(source, **made, anew=True))
            _check_driver(
                _driver().cuModuleGetFunction(ctypes.byref(self.function), module, name.encode())
            )
            if shared > 48 * 1024:
                maximum_dynamic_shared = 8
                _check_driver(
                    _driver().cuFuncSetAttribute(self.function, maximum_dynamic_shared, shared)
                )
        finally:
            _leave(before)

    def attribute(self, number: int) -> int:
        """A CUfunction_attribute, such as 4 (registers) or 3 (local bytes)."""
        value = ctypes.c_int()
        _check_driver(_driver().cuFuncGetAttribute(ctypes.byref(value), number, self.function))
        return value.value

    def launch(
        self,
        grid: tuple[int, int, int],
        threads: int,
        arguments: list[torch.Tensor | int | None],
        *,
        cooperative: bool = False,
    ) -> None:
        """Queue the kernel on torch's current stream; None stands for a null pointer."""
        values = [
            0 if a is None else a if type(a) is int else a.data_ptr()  # pyright: ignore
            for a in arguments
        ]
        # Threads that run one layer share the room for its arguments.
        with self._lock:
            if self._slots is None:
                self._slots = _slots(len(values))
            slots, pointers = self._slots
            slots[:] = values
            self._stream.value = torch._C._cuda_getCurrentRawStream(self.device)  # pyright: ignore
            self._ask(self._current_at)
            here = self._current.value == self._context
            before = None if here else _enter(self.device)
            try:
                # Without declared types, whose check takes longer than the rest of a call: sizes
                # are C ints as they are, and what is wider has a type of its own.
                x, y, z = grid
                place = (self.function, x, y, z, threads, 1, 1, self.shared, self._stream, pointers)
                status = self._together(*place) if cooperative else self._start(*place, None)
            finally:
                if not here:
                    _leave(before)
        if status:
            _check_driver(status)


def _loaded(binary: bytes) -> ctypes.c_void_p:
    module = ctypes.c_void_p()
    _check_driver(_driver().cuModuleLoadData(ctypes.byref(module), binary))
    return module


def _slots(count: int):
    """Room for the arguments of a launch, eight bytes each, and the pointers to them."""
    values = (ctypes.c_uint64 * count)()
    base = ctypes.addressof(values)
    return values, (ctypes.c_void_p * count)(*(base + 8 * i for i in range(count)))
