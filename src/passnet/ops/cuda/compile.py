"""CUDA source to binaries: NVRTC, and a cache of what it made on disk."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import hashlib
import os
import tempfile
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
