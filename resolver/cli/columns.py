"""The long line of an entry where a terminal has no room for it: shorter columns, and a name that is cut, so
that one entry stays one line. What was cut is in any line that goes elsewhere, or has room.
"""

from __future__ import annotations

import re
import unicodedata

from protocols.contract import Entry
from protocols.instant import instant

#: Below this a terminal has no room for the columns of `retrieval.listing.long_line` and a name.
ROOMY = 80
#: A name gets these at least: what is narrower still has lines that go on in the next one.
_LEAST = 8
_CUT = "…"
_LONGEST_SIZE = 6
_UNITS = "KMGTPE"


def short_columns(entry: Entry, number: int) -> str:
    """Kind, size, date and number; `~` as in the long line."""
    return f"{entry.kind.value[:3]:<3} {_size(entry):>{_LONGEST_SIZE}} {_day(entry):<11} {number:>4} "


def fit(text: str, columns: int) -> str:
    """All of it, or as much of its beginning and end as these columns have room for."""
    columns = max(columns, _LEAST)
    if _width(text) <= columns:
        return text
    end = _ending(text[::-1], (columns - 1) // 3)[::-1]
    return _ending(text, columns - 1 - _width(end)) + _CUT + end


def _ending(text: str, columns: int) -> str:
    """What of the beginning has room."""
    taken = 0
    for at, character in enumerate(text):
        taken += _width(character)
        if taken > columns:
            return text[:at]
    return text


def _width(text: str) -> int:
    """Cells of a terminal: two for wide characters, none for what stands upon another one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def _size(entry: Entry) -> str:
    """In the digits that there is room for, with a unit where those are too many: then it is rounded down."""
    if entry.size is None:
        said = (entry.extra or {}).get("size_text")
        found = re.sub(r"[^0-9.,A-Za-z]", "", said) if isinstance(said, str) else ""
        return f"~{found}"[:_LONGEST_SIZE] if found else "-"
    size, unit = entry.size, ""
    for each in _UNITS:
        if len(f"{size}{unit}") < _LONGEST_SIZE:
            break
        size, unit = size // 1024, each
    return f"~{size}{unit}" if unit else str(size)


def _day(entry: Entry) -> str:
    if (moment := instant(entry.modified)) is not None:
        return moment[:10]
    local = (entry.extra or {}).get("modified_local")
    return f"~{local[:10]}" if isinstance(local, str) and re.match(r"[0-9-]{10}", local) else "-"
