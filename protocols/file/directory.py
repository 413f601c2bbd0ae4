"""A directory as a listing: the names in it, one a line, and what each stands for.

The body is made of the names alone. Whoever reads it as entries feeds it to a `DirectoryReader`, which
counts the lines and looks the next names up: so nothing is looked up that nobody reads, and a name is
never made from a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import cast

from protocols.contract import BuiltUrl, Entry, FileStatus, JsonValue, Kind, LocalFile, Reply
from protocols.file.url import FileUrl, build, encode_segment
from protocols.step import Dialogue, EmitBody, ReadNames, StartBody
from protocols.values import replace

#: Octets of lines that a body gives in one piece.
_PIECE = 16_384

_LINE_END = re.compile(rb"[\x0a\x0d]")


def name_line(name: bytes) -> bytes:
    """A name as a line of its own: what would end the line is written as an escape."""
    if b"\n" in name or b"\r" in name:
        name = _LINE_END.sub(lambda found: b"\\x%02x" % found[0][0], name)
    return name + b"\n"


def name_lines(names: Iterable[bytes]) -> Iterator[bytes]:
    """One line a name, in pieces."""
    lines = bytearray()
    for name in names:
        lines += name_line(name)
        if len(lines) >= _PIECE:
            yield bytes(lines)
            lines.clear()
    if lines:
        yield bytes(lines)


class DirectoryReader:
    """Turns the lines of the body into entries, in the order of `names`."""

    def __init__(self, url: FileUrl, file: LocalFile, names: list[bytes]) -> None:
        self._base = build(child_url(url, b"", Kind.DOCUMENT))
        self._file = file
        self._names = iter(names)

    def feed(self, octets: bytes) -> Iterator[Entry]:
        for _ in range(octets.count(b"\n")):
            yield self._entry(next(self._names))

    def finish(self) -> Iterator[Entry]:
        return iter(())

    def _entry(self, name: bytes) -> Entry:
        status = self._file.status_of(name)
        below = "/" if status.kind is Kind.DIRECTORY else ""
        return Entry(
            name=name.decode("utf-8", "surrogateescape"),
            url=BuiltUrl(f"{self._base}{encode_segment(name)}{below}"),
            kind=status.kind,
            size=status.size,
            modified=status.modified,
            raw=name,
            extra=_identity(status),
        )


def _identity(status: FileStatus) -> dict[str, JsonValue] | None:
    """What tells that two names are of one directory."""
    if status.identity is None:
        return None
    link = {} if status.link is None else {"link": status.link.decode("utf-8", "surrogateescape")}
    return {"unique": status.identity, **link}


def child_url(url: FileUrl, name: bytes, kind: Kind) -> FileUrl:
    """What a name in the directory `url` is to be asked for; a directory ends in an empty segment. A password
    is left out, for entries are shown and stored."""
    above = url.segments
    while above and above[-1] == b"":
        above = above[:-1]
    below = (name, b"") if kind is Kind.DIRECTORY else (name,)
    segments = (*above, *below)
    return replace(url, segments=segments, password=None, fragment=None, text="", findings=(), places=())


def give_directory(url: FileUrl, file: LocalFile) -> Dialogue[None]:
    """The names as a body, and as entries."""
    names = cast("list[bytes]", (yield ReadNames()))
    reply = Reply(
        kind=Kind.DIRECTORY,
        media_type="text/plain",
        modified=file.status.modified,
        listing=DirectoryReader(url, file, names),
        extra=_identity(file.status),
    )
    yield StartBody(reply)
    for lines in name_lines(names):
        yield EmitBody(lines)
    reply.verified.add("terminator")  # getdents(2) returned 0: the names are all
