"""Every test starts from the same seed, on one thread, and compiles anew."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
import torch

torch.set_num_threads(1)
CACHE = "TORCHINDUCTOR_CACHE_DIR"


def pytest_configure(config: pytest.Config) -> None:
    """What torch.compile caches goes to a folder of this run, which its workers share.

    Its cache does not know the shapes that an op of ours returned when a graph was compiled.
    """
    if not hasattr(config, "workerinput"):
        os.environ[CACHE] = tempfile.mkdtemp(prefix="passnet-inductor-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ[CACHE], ignore_errors=True))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)
