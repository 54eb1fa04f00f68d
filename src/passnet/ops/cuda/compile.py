"""CUDA source to running kernels: NVRTC, a cubin cache on disk, launches on torch's stream."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import hashlib
import os
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

SOURCES = Path(__file__).parent
# NVRTC 13.0 takes the generic lambdas of a kernel for host functions unless told otherwise.
FLAGS = ("--std=c++17", "--device-as-default-execution-space")


class CompileError(RuntimeError):
    """NVRTC or the driver turned a kernel down."""


def read_source(*names: str) -> str:
    """The named source files of this folder, one after the other."""
    return "\n".join((SOURCES / name).read_text(encoding="utf-8") for name in names)


def macros(constants: Mapping[str, object]) -> tuple[str, ...]:
    """Options that define compile-time constants."""
    return tuple([f"-D{name}={value}" for name, value in constants.items()])


def cache_folder() -> Path:
    """Where compiled kernels are kept between processes."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "passnet" / "kernels"


def _nvrtc_candidates() -> list[str]:
    torch_folder = Path(torch.__file__).parent
    major = (torch.version.cuda or "13").split(".")[0]
    site = torch_folder.parent
    return [
        # torch's own shim is linked to the NVRTC it was built with, wherever the wheel put it.
        str(torch_folder / "lib" / "libcaffe2_nvrtc.so"),
        f"libnvrtc.so.{major}",
        *sorted(glob.glob(str(site / "nvidia" / "*" / "lib" / "libnvrtc.so.*"))),
        "libnvrtc.so",
    ]


class Nvrtc:
    """The run-time compiler, found where PyTorch's GPU build keeps it or at the path given."""

    def __init__(self, path: str | None = None) -> None:
        tried = []
        for name in [path] if path else _nvrtc_candidates():
            try:
                library = ctypes.CDLL(name)
                # NVRTC asks for these by name alone and does not look beside itself.
                beside = Path(name).with_name("libnvrtc-builtins.so.*")
                for builtins in glob.glob(str(beside)) if beside.is_absolute() else ():
                    ctypes.CDLL(builtins)
                library.nvrtcVersion  # noqa: B018 (looks the symbol up)
            except (OSError, AttributeError) as error:
                tried.append(f"{name} ({error})")
                continue
            self.library = library
            major, minor = ctypes.c_int(), ctypes.c_int()
            self._check(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
            self.version = (major.value, minor.value)
            return
        raise CompileError(
            "NVRTC was not found; it ships with PyTorch's GPU wheels. Tried: " + "; ".join(tried)
        )

    def _check(self, status: int) -> None:
        if status:
            text = self.library.nvrtcGetErrorString
            text.restype = ctypes.c_char_p
            raise CompileError(f"NVRTC: {text(status).decode()}")

    def compile(self, source: str, *, arch: str, options: tuple[str, ...] = ()) -> bytes:
        """The cubin of one source for one architecture such as ``sm_90``."""
        program = ctypes.c_void_p()
        self._check(
            self.library.nvrtcCreateProgram(
                ctypes.byref(program), source.encode(), b"passnet.cu", 0, None, None
            )
        )
        try:
            flags = [f"--gpu-architecture={arch}", *FLAGS, *options]
            array = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
            status = self.library.nvrtcCompileProgram(program, len(flags), array)
            if status:
                size = ctypes.c_size_t()
                self._check(self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
                log = ctypes.create_string_buffer(size.value)
                self._check(self.library.nvrtcGetProgramLog(program, log))
                raise CompileError(f"NVRTC could not compile for {arch}:\n{log.value.decode()}")
            size = ctypes.c_size_t()
            self._check(self.library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
            cubin = ctypes.create_string_buffer(size.value)
            self._check(self.library.nvrtcGetCUBIN(program, cubin))
            return cubin.raw
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def nvrtc() -> Nvrtc:
    """The NVRTC of this process."""
    return Nvrtc()


def cubin(source: str, *, arch: str, options: tuple[str, ...] = (), anew: bool = False) -> bytes:
    """Compile, or unless it is to be made `anew` read what an earlier process compiled."""
    compiler = nvrtc()
    key = "\0".join([source, arch, *FLAGS, *options, repr(compiler.version)])
    path = cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.cubin"
    if not anew:
        try:
            return path.read_bytes()
        except OSError:
            pass
    binary = compiler.compile(source, arch=arch, options=options)
    # A read-only home costs a compilation per process, not the kernel.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A rename is atomic, so another process never reads half a kernel.
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(binary)
                file.flush()
                os.replace(file.name, path)
            except OSError:
                os.unlink(file.name)
                raise
    return binary


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
