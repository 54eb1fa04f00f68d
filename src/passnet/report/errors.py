"""What can go wrong with a report, as one sentence a user can act on."""

from __future__ import annotations

from typing import final


@final
class ReportError(RuntimeError):
    """A folder holds no runs, a file is damaged, or a package is missing."""
