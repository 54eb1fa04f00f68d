"""Emulated chips, and memory in which a value never written cannot pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest
import torch
from emulator import COMPILER, Emulator


@pytest.fixture(scope="session")
def emulator(tmp_path_factory) -> Callable[..., Emulator]:
    """Makes chips; what they compile is shared by all processes of a test run."""
    if COMPILER is None:
        pytest.skip("kernels are emulated on Linux with g++, and one of them is missing")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "emulated"
    return partial(Emulator, folder)


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Uninitialised outputs are filled with NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
