"""The Markdown that notes are written in, as HTML: a small part of it, everything escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, takewhile
from typing import Literal

_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_ITEM = re.compile(r"(\s*)[-*]\s+(.+)")
_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A heading, an item of a list, a paragraph or a table; `anchor` is what links to it lead to.

    level: of a heading 1 to 6; of an item 1 where it is one of those below an item.
    text: of a table its lines, the first of them its head.
    """

    kind: Literal["heading", "item", "paragraph", "table"]
    text: str
    level: int = 0
    anchor: str = ""


def read_blocks(text: str) -> list[Block]:
    """Headings, items, paragraphs and tables in their order.

    An item goes on over the lines that follow it, and after an empty one over indented lines. An
    indented item is one below the item before it.
    """
    found: list[Block] = []
    apart = True
    for line in text.splitlines():
        words = line.strip()
        heading, item = _HEADING.fullmatch(line.rstrip()), _ITEM.fullmatch(line.rstrip())
        if not words:
            apart = True
        elif heading is not None:
            found.append(Block("heading", heading[2], level=len(heading[1])))
            apart = True
        elif line.startswith("|"):
            if found and found[-1].kind == "table" and not apart:
                found[-1] = replace(found[-1], text=f"{found[-1].text}\n{words}")
            else:
                found.append(Block("table", words))
            apart = False
        elif item is not None and (not item[1] or (found and found[-1].kind == "item")):
            found.append(Block("item", item[2], level=int(bool(item[1]))))
            apart = False
        elif _goes_on(found, line, apart=apart):
            found[-1] = replace(found[-1], text=f"{found[-1].text} {words}")
            apart = False
        else:
            found.append(Block("paragraph", words))
            apart = False
    return found


def _goes_on(found: list[Block], line: str, *, apart: bool) -> bool:
    """Whether words belong to the block before them."""
    if not found or found[-1].kind == "table":
        return False
    return not apart or (found[-1].kind == "item" and line[0].isspace())


def blocks_html(blocks: Iterable[Block], *, below: int) -> str:
    """The blocks as HTML, their headings below one of level `below`."""
    parts = []
    for kind, members in groupby(blocks, key=lambda block: block.kind):
        if kind == "heading":
            parts += [_element(f"h{min(6, below + block.level)}", block) for block in members]
        elif kind == "item":
            parts += _list(list(members))
        elif kind == "table":
            parts += [_table(block.text.splitlines()) for block in members]
        else:
            parts += [_element("p", block) for block in members]
    return "\n".join(parts)


def _list(items: list[Block]) -> list[str]:
    """The items as lines of a list, each with a list of those below it."""
    parts = ["<ul>"]
    while items:
        item, *rest = items
        below = list(takewhile(lambda one: one.level > 0, rest))
        lines = ["", "<ul>", *(_element("li", one) for one in below), "</ul>", ""] if below else []
        parts.append(_element("li", item, "\n".join(lines)))
        items = rest[len(below) :]
    return [*parts, "</ul>"]


def _table(lines: list[str]) -> str:
    """A table; in what is below its head, a line of dashes is none of it."""
    head, *rest = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    rows = [row for row in rest if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    top = "".join(f'<th scope="col">{inline_html(cell)}</th>' for cell in head)
    body = (f"<tr>{''.join(f'<td>{inline_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n" + "\n".join(body)
    label = 'role="region" tabindex="0" aria-label="Table of the notes"'
    return f'<div class="scroll" {label}>\n{table}\n</tbody>\n</table>\n</div>'


def inline_html(text: str) -> str:
    """Words with **bold**, `code` and [links](https://…); any other target is written out."""
    parts, place = [], 0
    for match in _INLINE.finditer(text):
        parts += [escape(text[place : match.start()]), _marked(*match.groups())]
        place = match.end()
    return "".join((*parts, escape(text[place:])))


def _marked(code: str | None, bold: str | None, words: str, target: str) -> str:
    if code is not None:
        return f"<code>{escape(code)}</code>"
    if bold is not None:
        return f"<strong>{inline_html(bold)}</strong>"
    if target.startswith(("https://", "http://")):
        return f'<a href="{escape(target)}">{inline_html(words)}</a>'
    return f"{inline_html(words)} ({escape(target)})"


def _element(tag: str, block: Block, inside: str = "") -> str:
    """A block with its words and, behind them, what else is inside."""
    anchor = f' id="{escape(block.anchor)}"' if block.anchor else ""
    return f"<{tag}{anchor}>{inline_html(block.text)}{inside}</{tag}>"
