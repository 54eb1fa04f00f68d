"""What a folder's notes say of rows that fall short, for a README."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from passnet.report.errors import ReportError
from passnet.report.notes import NOTES_FILE
from passnet.report.read import Folder, read_text

_HEADING = "## Where a row falls short\n"


def shortfalls(folders: Iterable[Folder]) -> str:
    """That section of the notes of the first folder that has some, as it stands there."""
    paths = [Path(folder) / NOTES_FILE for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise ReportError(f"there is no {' and no '.join(map(str, paths))} to quote")
    _, found, rest = read_text(path).partition(_HEADING)
    if not found:
        raise ReportError(f"{path} needs a heading {_HEADING.strip()!r}, whose section is quoted")
    return rest.partition("\n## ")[0].strip()
