"""Training within some minutes: a run ends with the last evaluation that fits, and can go on."""

from __future__ import annotations

from typing import final

from passnet.config.run_folder import TIME


def given_minutes(stopped: str | None) -> float | None:
    """The minutes that a run stopped for want of more; None where it ended otherwise."""
    if stopped is None or not stopped.startswith(TIME):
        return None
    return float(stopped.split()[1])


@final
class TimeLimit:
    """So many minutes for all parts of a run together, or None for as many as it takes."""

    def __init__(self, minutes: float | None) -> None:
        self._minutes = minutes
        self._evaluated = 0.0

    def begin(self, seconds: float) -> None:
        """The run has taken so long before."""
        self._evaluated = seconds

    def leaves_no_room(self, seconds: float) -> bool:
        """Whether another evaluation, as far away as the last one, would come too late."""
        since, self._evaluated = seconds - self._evaluated, seconds
        return self._minutes is not None and seconds + since > 60 * self._minutes

    @property
    def words(self) -> str:
        """Why a run ends, for `given_minutes` to read."""
        return f"{TIME}: {self._minutes} minutes have no room for another evaluation"

    def allows_more(self, stopped: str | None) -> bool:
        """Whether a run that stopped so was given less time than there is now."""
        before = given_minutes(stopped)
        return before is not None and (self._minutes is None or self._minutes > before)
