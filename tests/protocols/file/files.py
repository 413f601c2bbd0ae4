"""A local file in memory and a gate to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.contract import FileStatus, LocalFile, Sink
from resolver import Kind
from tests.protocols.in_memory import MemoryGate


class MadeUpFile:
    """A file with the given pieces, or a directory with the given names.

    If `written` is true, the file changes while it is read.
    """

    def __init__(
        self,
        *pieces: bytes,
        size: int | None = None,
        kind: Kind = Kind.DOCUMENT,
        names: dict[bytes, FileStatus] | None = None,
        written: bool = False,
    ) -> None:
        self.status = FileStatus(kind, size, None)
        self.asked: list[bytes] = []
        self._pieces = list(pieces)
        self._names = names or {}
        self._written = written

    def modified_since(self) -> bool:
        return self._written

    def begin_at(self, octet: int) -> None:
        self._pieces = [b"".join(self._pieces)[octet:]]

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def move(self, sink: Sink) -> int:
        octets = b"".join(self._pieces)
        self._pieces.clear()
        sink.write(octets)
        return len(octets)

    async def names(self) -> list[bytes]:
        return list(self._names)

    def status_of(self, name: bytes) -> FileStatus:
        self.asked.append(name)
        return self._names[name]


class FileGate(MemoryGate):
    """A gate to the given file."""

    def __init__(self, file: MadeUpFile) -> None:
        super().__init__(())
        self._file = file

    @asynccontextmanager
    async def open_file(self, segments: tuple[bytes, ...]) -> AsyncIterator[LocalFile]:
        yield self._file
