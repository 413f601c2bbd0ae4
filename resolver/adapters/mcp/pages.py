"""What was fetched is given page by page: what is held for further pages, and the cursors that name them.

A page of text is some characters long, of entries some entries, of anything else some octets. A further page
is of the same object and asks its server nothing. Only the newest are held: whoever comes late fetches anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from resolver.adapters.mcp.safe import Record

#: Octets, about, of what is held for further pages.
HELD = 33_554_432
#: Octets of what is no text on one page: base64 makes it a third longer.
OCTETS = 262_144

Content: TypeAlias = "str | bytes | tuple[dict[str, object], ...]"


class NoSuchPage(Exception):
    """The cursor is none of ours, or what it belongs to is held no more."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """`record` is said on every page. `weight` is about how many octets it takes."""

    record: Record
    content: Content
    weight: int


class ResultPage(NamedTuple):
    """One page, from `position` on; `cursor` names the next one, None behind the last."""

    held: StoredResult
    content: Content
    position: int
    cursor: str | None

    @property
    def facts(self) -> dict[str, object]:
        """Where it stands in the whole."""
        return {"position": self.position, "total": len(self.held.content), "next_cursor": self.cursor}


class ResultStore:
    """What is held, the newest last."""

    def __init__(self, most: int = HELD) -> None:
        self._most = most
        self._held: dict[int, StoredResult] = {}
        self._count = 0

    def first(self, held: StoredResult, length: int, width: int) -> ResultPage:
        """The first page of something new, which is held if that is not all of it."""
        page = self._page(self._count + 1, held, 0, length, width)
        if page.cursor is not None:
            self._count += 1
            self._held[self._count] = held
            self._make_room()
        return page

    def at(self, cursor: str, length: int, width: int) -> ResultPage:
        """The page of that name. Raises `NoSuchPage`."""
        match = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})", cursor, re.ASCII)
        number, position = (int(match[1]), int(match[2])) if match else (0, 0)
        held = self._held.get(number)
        if held is None or not 0 < position < len(held.content):
            raise NoSuchPage("there is no such page, or it is held no more: ask for the URL again")
        return self._page(number, held, position, length, width)

    def _page(self, number: int, held: StoredResult, position: int, length: int, width: int) -> ResultPage:
        end = _end(held.content, position, length, width)
        cursor = f"{number}-{end}" if end < len(held.content) else None
        return ResultPage(held, held.content[position:end], position, cursor)

    def _make_room(self) -> None:
        """The newest stays, however large: the limits of a retrieval bound it."""
        left = sum(held.weight for held in self._held.values())
        for number in list(self._held)[:-1]:
            if left <= self._most:
                return
            left -= self._held.pop(number).weight


def _end(content: Content, position: int, length: int, width: int) -> int:
    """Where a page of `length` characters or `width` entries ends. One of entries has no more characters than
    one of text, but for a single entry."""
    if isinstance(content, bytes):
        return min(position + OCTETS, len(content))
    if isinstance(content, str):
        end = min(position + length, len(content))
        line_end = content.rfind("\n", position + length // 2, end) + 1
        return line_end if line_end and end < len(content) else end
    return position + _fitting(content[position : position + width], length)


def _fitting(entries: tuple[dict[str, object], ...], length: int) -> int:
    for count, entry in enumerate(entries):
        length -= len(str(entry))
        if length < 0:
            return max(count, 1)
    return len(entries)
