"""What a stranger wrote, as an agent and whoever watches it may see it.

Controls and bidi controls are shown and not sent (S15). So are the tag characters of Unicode and their plane:
nobody sees them, and models read them as letters, which hides orders from the person beside the agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import resolver

T = TypeVar("T")

#: Characters of one text in a record, and about those of all of it. A URL of a page in a deep tree has fewer.
TEXT, RECORD = 4_096, 20_000

_UNSEEN = re.compile("[\U000e0000-\U000e0fff]")


def safe_text(text: str) -> str:
    """Line feeds and tabs stay, CR LF is a line end, and what cannot be seen is shown."""
    return _UNSEEN.sub(_shown, resolver.escape_controls(text))


def _shown(match: re.Match[str]) -> str:
    return f"\\U{ord(match.group()):08x}"


class Record(dict[str, object]):
    """What an agent is told of a thing: JSON whose every text is safe to show, bounded as a whole.

    A text longer than `TEXT` characters is cut and ends in `…`. When `RECORD` characters are told, further
    texts are cut to nothing and further members of nested values are left out. `shortened` says that either
    happened.
    A server words most of these texts: a redirect, a reason, a media type may have 64 KiB each.
    """

    def __init__(self, told: Mapping[str, object]) -> None:
        self._left = RECORD
        self._shortened = False
        super().__init__({name: self._value(value) for name, value in told.items()})
        if self._shortened:
            self["shortened"] = True

    def with_page(self, facts: Mapping[str, object]) -> Record:
        """Return the record with the facts of a page, which has bounds of its own."""
        whole = Record({})
        whole.update(self)
        whole.update(facts)
        return whole

    def _value(self, value: object) -> object:
        match value:
            case str():
                return self._text(value)
            case Mapping():
                return {
                    self._text(str(name)): self._value(each) for name, each in self._fitting(value.items())
                }
            case list() | tuple():
                return [self._value(each) for each in self._fitting(value)]
        self._left -= len(str(value))
        return value

    def _fitting(self, members: Iterable[T]) -> Iterator[T]:
        """Give the members of a value until all room is taken."""
        for each in members:
            if self._left <= 0:
                self._shortened = True
                return
            self._left -= 1
            yield each

    def _text(self, text: str) -> str:
        most = min(TEXT, max(self._left, 0))
        shown = cut(safe_text(text), most)
        self._shortened |= len(shown) > most
        self._left -= len(shown)
        return shown


def cut(text: str, most: int) -> str:
    """Return the beginning of a text that is longer than `most` characters, with a mark of the cut."""
    return text if len(text) <= most else f"{text[:most]}…"
