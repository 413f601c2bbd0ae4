"""How sizes, moments, kinds and facts are written, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from protocols.contract import Entry
from protocols.location import JsonValue, Kind
from protocols.reply import Facts
from protocols.values import NamedTuple
from resolver.terminal import escape_line

#: What a listing without a word of its own calls an entry.
KINDS: Mapping[Kind, str] = {
    Kind.DOCUMENT: "document",
    Kind.DIRECTORY: "directory",
    Kind.ARTICLE: "article",
    Kind.GROUP: "newsgroup",
    Kind.SEARCH: "search",
    Kind.SERVICE: "session",
    Kind.ADDRESS: "mail",
    Kind.LINK: "link",
    Kind.INFO: "text",
    Kind.ERROR: "error",
    Kind.UNKNOWN: "unknown",
}


class FactRow(NamedTuple):
    """One line of what is known."""

    name: str
    text: str


def size_of(entry: Entry) -> str:
    """In octets; `~` before what the server only rounded; a dash where it said nothing."""
    if entry.size is not None:
        return f"{entry.size:,}"
    return _about(entry, "size_text") or "–"


def date_of(entry: Entry) -> str:
    """In UTC, or by the server's own clock with `~`."""
    if entry.modified is not None:
        return f"{entry.modified:%Y-%m-%d %H:%M}"
    return _about(entry, "modified_local").replace("T", " ")[:17] or "–"


def _about(entry: Entry, name: str) -> str:
    said = (entry.extra or {}).get(name)
    return f"~{said}" if isinstance(said, str) and said else ""


def octets(count: int) -> str:
    return "1 octet" if count == 1 else f"{count:,} octets"


def counted(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def text_of(extra: Mapping[str, JsonValue] | None, name: str) -> str:
    """A text among what only the scheme knows; empty where there is none."""
    said = (extra or {}).get(name)
    return said if isinstance(said, str) else ""


def facts_of(facts: Facts) -> Iterator[FactRow]:
    """What a reply said of its object, each in words; whose word it is where that matters."""
    if facts.title:
        yield FactRow("title", facts.title)
    if facts.media_type is not None:
        charset = f", {facts.charset}" if facts.charset else ""
        yield FactRow("type", f"{facts.media_type}{charset}")
    if facts.size is not None:
        yield FactRow("size", octets(facts.size))
    if facts.modified is not None:
        yield FactRow("modified", f"{facts.modified:%Y-%m-%d %H:%M:%S} UTC")


def line_of(text: str) -> str:
    """On one line: what would end it, or move along it, is written as an escape."""
    return escape_line(text).replace("\t", "\\x09")
