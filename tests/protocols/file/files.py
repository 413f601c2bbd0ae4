"""A local file that is not there: what a gate would hand over, for tests without one."""

from __future__ import annotations

from protocols.contract import FileStatus, Kind, Sink


class MadeUpFile:
    """Gives these pieces, then the end; as a directory, these names. `written`: somebody writes to it."""

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


class Collected:
    """A sink in memory."""

    def __init__(self) -> None:
        self.octets = b""

    def fileno(self) -> int:
        raise AssertionError("a sink in memory has no descriptor")

    def write(self, octets: bytes | memoryview) -> None:
        self.octets += octets
