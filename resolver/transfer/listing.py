"""A listing as text: one entry a line, whatever the scheme.

A name may hold octets that would end its line; CR and LF are written `\\x0d` and `\\x0a`, so that a
line is always one entry. Articles are shown with their number and subject. A long line has what is known of
the entry before its name: kind, size, time, the types it can be had in or what may be done with it, and its
number in the listing; a dash for what is not, and `~` before what the server only rounded or had by a clock
of no known zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from protocols.contract import Entry
from protocols.location import Kind
from protocols.text import instant

#: What FTP says of what may be done with an entry, and how long that is: facts of MLSD, of which the
#: first has seven letters for a directory and Pure-FTPd has none, and the mode of LIST.
_RIGHTS = (("perm", 7), ("unix.mode", 4), ("mode", 10))
#: What makes the line of an entry.
Line: TypeAlias = Callable[[Entry], str]


def listing_line(entry: Entry) -> str:
    """The line for one entry, without its line end."""
    shown = entry.name
    if entry.kind is Kind.ARTICLE and entry.title:
        shown = f"{shown} {entry.title}"
    return shown.replace("\r", "\\x0d").replace("\n", "\\x0a")


def long_line(entry: Entry, number: int, name: str) -> str:
    """The line with what is known of the entry, which has that number, before its `name` as it is shown."""
    may = _rights(entry) or _types(entry)
    known = f"{entry.kind.value:<9} {_size(entry):>12}  {_moment(entry):<20}  {may:<4}"
    return f"{known} {number:>4}  {name}"


def _size(entry: Entry) -> str:
    return _describe_entry(entry, "size_text") if entry.size is None else f"{entry.size}"


def _moment(entry: Entry) -> str:
    return instant(entry.modified) or _describe_entry(entry, "modified_local")


def _describe_entry(entry: Entry, name: str) -> str:
    """What a server said loosely; a dash where it said nothing."""
    said = (entry.extra or {}).get(name)
    return "~" + _one_word(said.replace(" ", "")) if isinstance(said, str) and said else "-"


def _rights(entry: Entry) -> str:
    """In a column as wide as all of its kind need, so that names begin below one another."""
    extra = entry.extra or {}
    for name, columns in _RIGHTS:
        if isinstance(said := extra.get(name), str) and said:
            return _one_word(said).ljust(columns)
    return ""


def _types(entry: Entry) -> str:
    """Those that a WAIS server has a document in; a menu's one character; else none are known: FTP's fact of
    that name says no more than the kind does."""
    extra = entry.extra or {}
    character = extra.get("type")
    types = extra.get("types", character if isinstance(character, str) and len(character) == 1 else None)
    words = types if isinstance(types, list) else [types]
    return ",".join(_one_word(word) for word in words if isinstance(word, str) and word) or "-"


def _one_word(word: str) -> str:
    """As a column can have it: a blank or a line end is a server's joke."""
    return "".join(character if character.isprintable() and character != " " else "?" for character in word)


def listing_octets(entries: Iterable[Entry], line: Line = listing_line) -> bytes:
    """Lines of a listing as UTF-8; octets that were no UTF-8 come out as they were."""
    return "".join(f"{line(entry)}\n" for entry in entries).encode("utf-8", "surrogateescape")
