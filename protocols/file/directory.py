"""A directory as a listing: the names in it, one a line, and what each stands for.

The body is made of the names alone. Whoever reads it as entries feeds it to a `DirectoryReader`, which
counts the lines and looks the next names up: so nothing is looked up that nobody reads, and a name is
never made from a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from protocols.contract import Entry, Kind, LocalFile, Reply, Sink
from protocols.file.url import FileUrl, build

#: Octets of lines that a body gives in one piece.
_PIECE = 65_536

_LINE_END = re.compile(rb"[\x0a\x0d]")


def name_line(name: bytes) -> bytes:
    """A name as a line of its own: what would end the line is written as an escape."""
    return _LINE_END.sub(lambda found: b"\\x%02x" % found[0][0], name) + b"\n"


class NameLines:
    """A body: one line a name."""

    def __init__(self, names: list[bytes]) -> None:
        self._names = iter(names)

    def __aiter__(self) -> NameLines:
        return self

    async def __anext__(self) -> bytes:
        octets = self._next()
        if not octets:
            raise StopAsyncIteration
        return octets

    async def drain(self, sink: Sink) -> int:
        moved = 0
        while octets := self._next():
            sink.write(octets)
            moved += len(octets)
        return moved

    def _next(self) -> bytes:
        lines = bytearray()
        for name in self._names:
            lines += name_line(name)
            if len(lines) >= _PIECE:
                break
        return bytes(lines)


class DirectoryReader:
    """Turns the lines of a `NameLines` body into entries, in the order of `names`."""

    def __init__(self, url: FileUrl, file: LocalFile, names: list[bytes]) -> None:
        self._url = url
        self._file = file
        self._names = iter(names)

    def feed(self, octets: bytes) -> Iterator[Entry]:
        for _ in range(octets.count(b"\n")):
            yield self._entry(next(self._names))

    def finish(self) -> Iterator[Entry]:
        return iter(())

    def _entry(self, name: bytes) -> Entry:
        status = self._file.status_of(name)
        return Entry(
            name=name.decode("utf-8", "surrogateescape"),
            url=build(child_url(self._url, name, status.kind)),
            kind=status.kind,
            size=status.size,
            modified=status.modified,
            raw=name,
        )


def child_url(url: FileUrl, name: bytes, kind: Kind) -> FileUrl:
    """What a name in the directory `url` is to be asked for; a directory ends in an empty segment."""
    above = url.segments
    while above and above[-1] == b"":
        above = above[:-1]
    below = (name, b"") if kind is Kind.DIRECTORY else (name,)
    return replace(url, segments=(*above, *below), fragment=None, text="", findings=(), places=())


async def reply_with_directory(url: FileUrl, file: LocalFile) -> Reply:
    names = await file.names()
    return Reply(
        kind=Kind.DIRECTORY,
        body=NameLines(names),
        media_type="text/plain",
        modified=file.status.modified,
        listing=DirectoryReader(url, file, names),
    )
