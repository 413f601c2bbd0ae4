"""What a rule objects to, pointed at in the URL: the place marked, carets under it, and the same in words.
Positions count in cells as they are shown: what is an escape on the page is as wide as that."""

from __future__ import annotations

import re
import unicodedata

from protocols.values import NamedTuple
from resolver.url import place_in_shown
from resolver.window.pages.words import line_of

#: Characters of a URL around the place.
_AROUND = 100
#: What is pointed at as a whole: escapes side by side, a number, a hidden
#: password, else one character.
_WHOLE = re.compile(r"(?:%[0-9A-Fa-f]{2}){1,8}|[0-9]{1,8}|[*]{4}|.", re.DOTALL)


class CaretLine(NamedTuple):
    """`before`, `marked` and `after` are the URL, cut where it is long; `carets` stand under it."""

    before: str
    marked: str
    after: str
    carets: str
    words: str


def pointed(text: str, shown: str, position: int) -> CaretLine:
    """The place `position` of `text`, in the URL as it is `shown`, without its password."""
    place = min(place_in_shown(text, shown, position), len(shown))
    found = _WHOLE.match(shown, place)
    end = place if found is None else found.end()
    start, stop = max(0, place - _AROUND), min(len(shown), end + _AROUND)
    before = ("…" if start else "") + line_of(shown[start:place])
    marked = line_of(shown[place:end])
    after = line_of(shown[end:stop]) + ("…" if stop < len(shown) else "")
    carets = " " * _cells(before) + "^" * max(1, _cells(marked))
    return CaretLine(before, marked, after, carets, _words(place, end, len(shown)))


def _words(place: int, end: int, length: int) -> str:
    if place >= length:
        return "at the end"
    if end - place == 1:
        return f"position {place}"
    return f"positions {place} to {end - 1}"


def _cells(text: str) -> int:
    """Two for wide characters, none for what stands upon another one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )
