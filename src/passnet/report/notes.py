"""What was written down about results, in a NOTES.md beside them, and which rows it speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from passnet.experiments import names
from passnet.report.markdown import Block, blocks_html, read_blocks
from passnet.report.read import Folder, read_text

NOTES_FILE = "NOTES.md"
TITLE = "Notes on these results"
_BOLD = re.compile(r"\*\*([^*]+)\*\*(?:,? and |, )?")


@dataclass(frozen=True)
class Notes:
    """The notes of one folder.

    place: the file, from the folder above it.
    about: for each preset that items begin with, the anchors of those items.
    """

    place: str
    html: str
    about: dict[str, tuple[str, ...]]


def find_notes(folders: Iterable[Folder]) -> list[Notes]:
    """The notes that lie in the folders themselves, each once."""
    files = {}
    for folder in folders:
        file = Path(folder) / NOTES_FILE
        if file.exists():
            files.setdefault(file.resolve(), file)
    return [_read(file, f"notes-{number}") for number, file in enumerate(files.values(), 1)]


def anchors_of(notes: Iterable[Notes]) -> dict[str, tuple[str, ...]]:
    """For each preset that notes speak of, the anchors of what they say."""
    found: dict[str, tuple[str, ...]] = {}
    for written in notes:
        for name, anchors in written.about.items():
            found[name] = (*found.get(name, ()), *anchors)
    return found


def _read(file: Path, anchor: str) -> Notes:
    blocks, about = [], {}
    for block in read_blocks(read_text(file)):
        if block.kind == "heading" and block.text == TITLE:
            continue  # the section that shows them is called so
        presets = tuple(presets_named(block)) if block.kind == "item" else ()
        if presets:
            block = replace(block, anchor=f"{anchor}-{len(blocks) + 1}")
        for name in presets:
            about[name] = (*about.get(name, ()), block.anchor)
        blocks.append(block)
    place = f"{file.resolve().parent.name}/{file.name}"
    return Notes(place, blocks_html(blocks, below=2), about)


def presets_named(block: Block) -> Iterator[str]:
    """The presets in bold at the start of a block, such as `**a/b, a/c** and **d**`.

    After a preset, others of its group need no group, nor more than the end of their name where
    only one ends so.
    """
    group = ""
    for word in _bold_start(block.text):
        whole = [name for name in (word, f"{group}/{word}") if name in names()]
        ending = f"-{word.lstrip('-')}"
        found = whole or [n for n in names() if n.startswith(f"{group}/") and n.endswith(ending)]
        if len(found) == 1:
            group = found[0].partition("/")[0]
            yield found[0]


def _bold_start(text: str) -> Iterator[str]:
    place = 0
    while match := _BOLD.match(text, place):
        yield from (word.strip("` ") for word in re.split(r",| and ", match[1]))
        place = match.end()
