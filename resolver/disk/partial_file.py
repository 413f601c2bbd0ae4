"""Files that we write: the only place where a peer's octets become a file of ours (S14).

A body grows in NAME.part beside its final name, created exclusively and through no link, and gets its
name in one step once it is whole and on the disk. The directory is held open meanwhile, so that
renaming it cannot send the file elsewhere. Nothing is ever made executable. What becomes of the names is
`part`'s; here are the octets, the waiting and the words for what the system refuses.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from protocols.contract import Sink as AnySink
from protocols.contract import Validators
from protocols.errors import LocalError
from resolver.disk.faults import writing_fault
from resolver.disk.part import Existing, Part
from resolver.loops import is_cancel, running

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_PIECE = 1_048_576

#: Octets hashed without a look at whether anybody still wants the digest: some 0.1 s.
_HASHED_AT_ONCE = 67_108_864


def position_of(sink: AnySink) -> int | None:
    """Octets in a file so far, those moved in bulk included; None for what has no position."""
    try:
        return os.lseek(sink.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None


class PartialFile:
    """An async context manager around NAME.part. All errors are `LocalError` and say what, where and what
    to do.

    Entering creates the file, or takes up the one that an earlier run left for the same `source` (a URL
    without a password): then `position` and `known` say how far that came and of what; `dropped` says what
    was there that cannot be gone on with. Leaving without `commit` keeps what arrived if a later run
    could go on with it or the caller was cancelled, and else removes it. A file that another process is
    writing, or that is none of ours, is left alone. `finished`: the file has its name already, and only what
    tells of that was left. `left` is how many octets stay behind for a later run.

    With `adopt`, a file that has the final name already counts as begun, if nothing was begun beside it; it
    gets that name back when nothing comes of it. With `make_directory` the directory is made first; with
    `below`, how the path begins, nothing behind that may be a link. With `meta` it is said on entering
    whether a sidecar can be written.
    """

    final = False

    def __init__(
        self,
        path: str,
        *,
        exists: Existing = "fail",
        source: str = "",
        adopt: bool = False,
        make_directory: bool = False,
        below: str | None = None,
        meta: bool = False,
    ) -> None:
        self.path = path
        self.left = 0
        self._part = Part(
            path,
            exists=exists,
            source=source,
            adopt=adopt,
            make_directory=make_directory,
            below=below,
            meta=meta,
        )

    async def __aenter__(self) -> PartialFile:
        self._loop = running()
        try:
            self._part.open()
        except OSError as error:
            self._part.close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self._part.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        part = self._part
        if part.fd == -1:
            part.close()
        elif part.adopted is not None and self.position == part.adopted:
            with suppress(OSError, LocalError):
                part.give_back()
            part.close()
        elif part.adopted is not None or self._is_worth_keeping(kind):
            self.keep()
        else:
            self.discard()

    def _is_worth_keeping(self, kind: type[BaseException] | None) -> bool:
        """Could another run go on with it? Who interrupts us gets to keep what arrived in any case."""
        interrupted = kind is not None and is_cancel(kind)
        return self.position > 0 and self._part.kept and (self.known != Validators() or interrupted)

    @property
    def known(self) -> Validators:
        """What the octets in the file are of."""
        return self._part.known

    @property
    def finished(self) -> bool:
        return self._part.finished

    @property
    def dropped(self) -> str | None:
        return self._part.dropped

    async def remember(self, known: Validators) -> None:
        """Write down what the octets that follow are of, before the first of them is written."""
        await self._note(known, complete=False)

    async def _note(self, known: Validators, *, complete: bool) -> None:
        try:
            await self._loop.in_thread(partial(self._part.note, known, complete=complete))
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def restart(self) -> None:
        """Begin again at octet 0: what was there is of another state of the object. What had the final
        name before has it again, until the new file takes its place."""
        try:
            self._part.restart()
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def tail(self, count: int) -> bytes:
        """The last `count` octets."""
        return os.pread(self._part.fd, count, max(0, self.position - count))

    def fileno(self) -> int:
        return self._part.fd

    @property
    def position(self) -> int:
        """Octets in the file so far, those moved in bulk included."""
        return self._part.position

    def write(self, octets: bytes | memoryview) -> None:
        left = memoryview(octets)
        try:
            while left:
                left = left[os.write(self._part.fd, left) :]
        except OSError as error:
            raise writing_fault(error, self.path) from error

    async def digest(self, algorithm: str) -> str:
        """The digest of what is in the file, in hex. It is read in a worker thread, piece by piece, so that
        a cancellation is heeded soon."""
        digest = hashlib.new(algorithm)
        offset = 0
        while count := await self._loop.in_thread(self._add_to, digest, offset):
            offset += count
        return digest.hexdigest()

    def _add_to(self, digest: Hash, offset: int) -> int:
        """Some more of the file; how many octets."""
        count = 0
        try:
            while count < _HASHED_AT_ONCE and (octets := os.pread(self._part.fd, _PIECE, offset + count)):
                digest.update(octets)
                count += len(octets)
        except OSError as error:
            raise LocalError(f"cannot read back {self.path!r}: {error.strerror}") from error
        return count

    async def commit(self, modified: datetime | None = None, meta: bytes | None = None) -> None:
        """Bring the file to the disk, set its time, give it its name, and `meta` that of its sidecar. In a
        worker thread, for a disk may take seconds; not to be cancelled half way."""
        await self._note(self.known, complete=True)
        try:
            await self._loop.in_thread(self._part.settle, modified, meta)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def keep(self) -> None:
        """Close, and leave NAME.part where it is: what arrived can be continued."""
        self.left = self.position
        self._part.close()

    def discard(self) -> None:
        """Close, and remove NAME.part; harmless after `commit` and `keep`."""
        self._part.discard()
