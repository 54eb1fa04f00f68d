"""Records as standard JSON."""

from __future__ import annotations

import json
import math
from typing import Any


def plain(value: Any) -> Any:
    """The value as standard JSON has it: numbers that are not finite become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def json_bytes(value: Any) -> bytes:
    """Indented JSON of a record, for people to read too."""
    return (json.dumps(plain(value), indent=1, allow_nan=False) + "\n").encode()
