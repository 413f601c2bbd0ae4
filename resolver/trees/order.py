"""The orders in which a listing is sorted: by name, by size and by date."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from protocols.contract import Entry, JsonValue
from protocols.text import instant

#: An entry with its position in the listing, from 1.
Numbered = tuple[int, Entry]

_UNITS = "KMGTPE"
_ROUNDED_SIZE = r"(?i)([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([KMGTPE]?)"


def _by_size(numbered: Numbered) -> tuple[float, str, int]:
    """Return the sort key: largest entry first, sizes such as 1.2M as bytes, unknown sizes last."""
    number, entry = numbered
    size = _parse_rounded_size(entry) if entry.size is None else float(entry.size)
    return -size, entry.name, number


def _parse_rounded_size(entry: Entry) -> float:
    text = (entry.extra or {}).get("size_text")
    match = re.match(_ROUNDED_SIZE, text) if isinstance(text, str) else None
    if match is None:
        return -1.0
    return float(match[1]) * 1024.0 ** (_UNITS.find(match[2].upper()) + 1 if match[2] else 0)


def _by_date(numbered: Numbered) -> tuple[int, int]:
    """Return the sort key: newest entry first, unknown dates last."""
    digits = re.sub(r"[^0-9]", "", format_moment(numbered[1]))[:14].ljust(14, "0")
    return -int(digits), numbered[0]


def format_moment(entry: Entry) -> str:
    """Return the modification time of an entry in UTC, or else in the server's local time."""
    local: JsonValue = (entry.extra or {}).get("modified_local")
    return instant(entry.modified) or (local if isinstance(local, str) else "")


ORDERS: Mapping[str, Callable[[Numbered], tuple[object, ...]]] = {
    "name": lambda numbered: (numbered[1].name, numbered[0]),
    "size": _by_size,
    "date": _by_date,
}
