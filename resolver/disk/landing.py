"""The last steps of a file that is whole (S14): all of it on the disk, then its name.

What has grown in NAME.part gets the name of that. What was held in memory is written to a file without a name
where the file system has such files, and linked to NAME: a process that is killed leaves the whole of it or
nothing, so there is no state, no token and no lock. Elsewhere, where it takes the place of another file,
where somebody has begun NAME.part meanwhile, and where a sidecar is to be of this file and no other, it takes
all the steps of `part`.

These are done in a worker thread.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Protocol

from resolver.disk.names import taken
from resolver.disk.part import PartFile
from resolver.disk.writing import set_time, write_all


class PendingFile(Protocol):
    """A file on its last steps. Raises `OSError` and `LocalError`."""

    def complete(self) -> int:
        """Write what is not written yet; its descriptor."""
        ...

    def settle(self, *, durable: bool) -> None:
        """It is on the disk: it gets its name, and is closed. If that is to be `durable`, the name is on the
        disk then, too."""
        ...

    def close(self) -> None:
        """Nothing comes of it; harmless after `settle`."""
        ...


class PendingPartFile:
    """What is in NAME.part."""

    def __init__(self, part: PartFile, modified: datetime | None, meta: bytes | None) -> None:
        self._part = part
        self._modified = modified
        self._meta = meta

    def complete(self) -> int:
        self._part.note(self._part.known, complete=True)
        set_time(self._part.fd, self._modified)
        return self._part.fd

    def settle(self, *, durable: bool) -> None:
        self._part.settle(self._meta, durable=durable)

    def close(self) -> None:
        """NAME.part stays, for whoever has it."""


class UnopenedPart:
    """What is in memory, of a part that was looked at and not opened."""

    def __init__(
        self, part: PartFile, octets: bytes | bytearray, modified: datetime | None, meta: bytes | None
    ) -> None:
        self._part = part
        self._octets = octets
        self._modified = modified
        self._meta = meta
        self._fd = -1

    def complete(self) -> int:
        part = self._part
        fd = part.directory.create_nameless() if self._meta is None and part.is_free else None
        if fd is None:
            return self._grow()
        self._fd = fd
        write_all(fd, self._octets, part.path)
        set_time(fd, self._modified)
        return fd

    def _grow(self) -> int:
        """An empty one needs no state before its octets are there."""
        self._part.begin_with(self._octets)
        return PendingPartFile(self._part, self._modified, self._meta).complete()

    def settle(self, *, durable: bool) -> None:
        part = self._part
        if self._fd == -1:
            return part.settle(self._meta, durable=durable)
        try:
            has_name = part.directory.give_name(self._fd, part.name)
        except FileExistsError as error:
            if not part.replaces:
                raise taken(part.path) from error
            has_name = False
        self.close()
        if not has_name:
            os.fsync(self._grow())
            return part.settle(None, durable=durable)
        if durable:
            part.directory.sync()
        return part.close()

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1
