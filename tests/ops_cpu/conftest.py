"""Where there is a C compiler, the compiled scans have to be there too.

Without one the tests here skip; a library that a compiler at hand did not make is a mistake, which
skipping would hide.
"""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

from passnet.ops.cpu import installed


def compiler() -> str | None:
    """The C compiler that an installation would have used, if any is on the path."""
    asked = shlex.split(os.environ.get("CC", ""))[:1]
    return next(filter(None, map(shutil.which, [*asked, "cc", "gcc", "clang"])), None)


def pytest_configure() -> None:
    missing, found = installed(), compiler()
    if isinstance(missing, str) and found is not None:
        raise pytest.UsageError(f"tests/ops_cpu, with {found} at hand: {missing}")
