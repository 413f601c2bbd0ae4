"""A file or a directory of some machine, as an archive has it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from protocols.contract import FileStatus, Kind, Sink
from resolver.warc.block import joined
from resolver.warc.told import Json, count, moment

#: Octets of all names of a directory, with what is known of them.
_MOST = 67_108_864

_NOTHING = FileStatus(kind=Kind.UNKNOWN, size=None, modified=None)


class ArchivedFile:
    """See `protocols.contract.LocalFile`."""

    def __init__(self, status: FileStatus, pieces: Iterator[bytes]) -> None:
        self.status = status
        self._pieces = pieces
        self._skipped = 0
        self._names: dict[bytes, FileStatus] | None = None

    async def read(self) -> bytes:
        for octets in self._pieces:
            left = octets[self._skipped :]
            self._skipped -= len(octets) - len(left)
            if left:
                return left
        return b""

    def modified_since(self) -> bool:
        return False

    def begin_at(self, octet: int) -> None:
        self._skipped = octet

    async def move(self, sink: Sink) -> int:
        moved = 0
        while octets := await self.read():
            sink.write(octets)
            moved += len(octets)
        return moved

    async def names(self) -> list[bytes]:
        return [*self._read()]

    def status_of(self, name: bytes) -> FileStatus:
        return self._read().get(name, _NOTHING)

    def _read(self) -> dict[bytes, FileStatus]:
        if self._names is None:
            octets = joined(self._pieces, _MOST, "a directory")
            self._names = dict(filter(None, map(_entry, octets.splitlines())))
        return self._names


def _entry(line: bytes) -> tuple[bytes, FileStatus] | None:
    """What no name can be is passed over."""
    try:
        said = json.loads(line)
        name = said["name"].encode("latin-1")
        kind = Kind(said["kind"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not name or b"/" in name or b"\0" in name or name in (b".", b".."):
        return None
    event: Json = said
    return name, FileStatus(kind=kind, size=count(event, "size"), modified=moment(event, "modified"))


def status_from(end: Json, size: int | None, *, is_directory: bool) -> FileStatus:
    """What is known of the thing itself."""
    kind = Kind.DIRECTORY if is_directory else Kind.DOCUMENT
    announced = count(end, "announced")
    return FileStatus(
        kind=kind,
        size=None if is_directory else size if announced is None else announced,
        modified=moment(end, "modified"),
    )
