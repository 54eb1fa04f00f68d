"""Compile the CPU scan, a plain C library loaded with ctypes; pyproject.toml says the rest."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = "src/passnet/ops/cpu"
SOURCES = sorted(Path(FOLDER).glob("*.[ch]"))
DIGEST = sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
"""What the library says it was made of; `library.py` compares it with the files that lie there."""


class BuildLibrary(build_ext):
    """An extension that Python never imports: it exports no init function."""

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


setup(
    ext_modules=[
        Extension(
            "passnet.ops.cpu._scan",
            sources=[f"{FOLDER}/scan.c"],
            depends=[path.as_posix() for path in SOURCES],
            define_macros=[("PASSNET_SOURCES", f'"{DIGEST}"')],
            extra_compile_args=[
                "-std=gnu11",
                "-O3",
                "-g0",
                "-ffp-contract=fast",
                "-fvisibility=hidden",
            ],
            extra_link_args=["-pthread"],
            # Where it cannot be compiled the package installs all the same and says what it lacks.
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildLibrary},
)
