"""The packages that passnet needs, and the sentence for one that is not there."""

from __future__ import annotations

import sys

NEEDED = {
    "torch": ("PyTorch", "torch>=2.9"),
    "numpy": ("NumPy", "numpy>=1.26"),
    "jaxtyping": ("jaxtyping", "jaxtyping>=0.3"),
    "safetensors": ("safetensors", "safetensors>=0.5"),
    "rich": ("rich", "rich>=13"),
}
"""Modules with the names people know them by, and what pip is to install."""


def missing_package(error: ImportError) -> str | None:
    """One sentence when a package of these is not installed; None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name not in NEEDED:
        return None
    name, requirement = NEEDED[error.name]
    where = f"for this Python ({sys.executable})"
    return f"{name} is not installed {where}: pip install '{requirement}'"
