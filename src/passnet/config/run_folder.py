"""The folder of a run, as whoever writes it and whoever reads it know it: names, format, words."""

from __future__ import annotations

from typing import Any

FORMAT, VERSION = "passnet-run", 1
EXPERIMENT_FILE = "experiment.json"
"""The file that makes a folder a run."""
METRICS_FILE = "metrics.jsonl"
RESULT_FILE = "result.json"

# Why a run ended, which its result says in `stopped`: the whole text, or how it begins.
ALL_TAKEN = "updates: all are taken"
DIVERGED = "diverged"
TIME = "time"


def fault_in(record: dict[str, Any]) -> str | None:
    """What is wrong with the form of an `experiment.json`, to stand behind its name, or None."""
    found = record.get("format"), record.get("version")
    if found != (FORMAT, VERSION):
        return (
            f"is not of a passnet run (format {found[0]!r}, version {found[1]!r}): expected "
            f"{FORMAT!r}, version {VERSION}"
        )
    if not isinstance(record.get("identity"), str):
        return "is damaged: it has no 'identity'"
    if not isinstance(record.get("data") or {}, dict):
        return "is damaged: its 'data' are not a JSON object"
    return None
