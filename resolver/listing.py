"""A listing as text: one entry a line, whatever the scheme.

A name may hold octets that would end its line; CR and LF are written `\\x0d` and `\\x0a`, so that a
line is always one entry. Articles are shown with their number and subject.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocols.contract import Entry
from protocols.location import Kind


def listing_line(entry: Entry) -> str:
    """The line for one entry, without its line end."""
    shown = entry.name
    if entry.kind is Kind.ARTICLE and entry.title:
        shown = f"{shown} {entry.title}"
    return shown.replace("\r", "\\x0d").replace("\n", "\\x0a")


def listing_octets(entries: Iterable[Entry]) -> bytes:
    """Lines of a listing as UTF-8; octets that were no UTF-8 come out as they were."""
    return "".join(f"{listing_line(entry)}\n" for entry in entries).encode("utf-8", "surrogateescape")
