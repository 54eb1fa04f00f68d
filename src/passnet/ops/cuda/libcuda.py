"""The CUDA driver: its library, what its errors say, and whose context a thread is in."""

from __future__ import annotations

import ctypes
from functools import cache

import torch

from passnet.ops.cuda.compile import CompileError


@cache
def libcuda() -> ctypes.PyDLL:
    """Its functions, which return a status: zero, or what `check` raises."""
    # Calls are short: to hand the interpreter's lock over and take it back would take longer.
    return ctypes.PyDLL("libcuda.so.1")


def check(status: int) -> None:
    """Raise what the driver says of a status that is not zero."""
    if status:
        text = ctypes.c_char_p()
        libcuda().cuGetErrorString(status, ctypes.byref(text))
        raise CompileError(f"CUDA driver error {status}: {(text.value or b'unknown').decode()}")


@cache
def context_of(device: int) -> ctypes.c_void_p:
    """The context of a device that torch's tensors are in."""
    torch.cuda.current_stream(device)  # initialises torch's primary context
    check(libcuda().cuInit(0))
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    check(libcuda().cuDeviceGet(ctypes.byref(handle), device))
    check(libcuda().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle))
    return context


def enter(device: int) -> ctypes.c_void_p | None:
    """Makes a device's context the thread's; the one before, for `leave`, if it was another."""
    before = ctypes.c_void_p()
    libcuda().cuCtxGetCurrent(ctypes.byref(before))
    context = context_of(device)
    if before.value == context.value:
        return None
    check(libcuda().cuCtxSetCurrent(context))
    return before


def leave(before: ctypes.c_void_p | None) -> None:
    """Makes that context the thread's again."""
    if before is not None:
        check(libcuda().cuCtxSetCurrent(before))
