"""What all rows of a table that were run have in common, so that it can be said once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from passnet.report.describe import places_text
from passnet.report.groups import Group


@dataclass(frozen=True)
class Alike:
    """Remarks on every row, and the device and backend of every run; empty where they differ."""

    remarks: tuple[str, ...] = ()
    place: str = ""

    @property
    def sentence(self) -> str:
        """The remarks, to stand below a table's title."""
        return f"Every row that was run: {'; '.join(self.remarks)}." if self.remarks else ""


def alike(presets: Collection[str], groups: Iterable[Group]) -> Alike:
    """What is common to the finished rows of these presets, of which there have to be several."""
    done = [g for g in groups if g.is_preset and g.name in presets and g.finished]
    if len(done) < 2:
        return Alike()
    places = {places_text(group) for group in done}
    return Alike(
        tuple(text for text in done[0].remarks if all(text in group.remarks for group in done)),
        places.pop() if len(places) == 1 else "",
    )
