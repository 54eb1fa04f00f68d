"""A digest that tells whether two experiments are the same computation."""

from __future__ import annotations

import hashlib
import json

from passnet.config.experiment import Experiment
from passnet.config.plain import to_json

DESCRIPTION = ("name", "protocol", "paper", "aim", "notes")
"""The fields that say what an experiment is about and change nothing in its run."""


def identity(experiment: Experiment) -> str:
    """SHA-256 in hexadecimal of everything that determines a run, its seed included."""
    settings = {key: value for key, value in to_json(experiment).items() if key not in DESCRIPTION}
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
