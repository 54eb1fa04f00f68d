"""What can go wrong with a report, as one sentence a user can act on."""

from __future__ import annotations

from typing import final


class ReportError(RuntimeError):
    """A folder holds no runs, a file is damaged, or a package is missing."""


@final
class NothingThere(ReportError):
    """There is no such folder, or there are no runs in it: another argument would do."""
