"""PyTorch's exporters without their remarks about themselves."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly() -> Iterator[None]:
    """Leave out what PyTorch says of names that will go, of torchvision that is not there, and of
    the list of weights in its own recurrent layers."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", r"The tensor attributes? self\._flat_weights")
            yield
    finally:
        log.setLevel(level)
