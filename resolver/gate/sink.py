"""Files that we write: the only place where a peer's octets become a file of ours (S14).

A body grows in NAME.part beside its final name, created exclusively and through no link, and gets its
name in one step once it is whole and on the disk. The directory is held open meanwhile, so that
renaming it cannot send the file elsewhere. Nothing is ever made executable.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

from protocols.contract import Sink as AnySink
from protocols.contract import Validators
from protocols.errors import LocalError
from resolver.gate.directory import Directory
from resolver.gate.faults import writing_fault
from resolver.gate.lock import lock
from resolver.gate.part_state import PartState, read_state, write_state

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

#: What to do about a file that has the name already: `fail` before anything is fetched, or `replace`.
Existing: TypeAlias = Literal["fail", "replace"]

_PIECE = 1_048_576

#: Octets hashed without a look at whether anybody still wants the digest: some 0.1 s.
_HASHED_AT_ONCE = 67_108_864


def position_of(sink: AnySink) -> int | None:
    """Octets in a file so far, those moved in bulk included; None for what has no position."""
    try:
        return os.lseek(sink.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None


class Sink:
    """An async context manager around NAME.part. All errors are `LocalError` and say what, where and what
    to do.

    Entering creates the file, or takes up the one that an earlier run left for the same `source` (a URL
    without a password): then `position` and `known` say how far that came and of what; `displaced` is the
    source of one that was begun for another. Leaving without `commit` keeps what arrived if a later run
    could go on with it or the caller was cancelled, and else removes it. A file that another process is
    writing, or that is none of ours, is left alone. `finished`: the file has its name already, and only what
    tells of that was left.

    With `adopt`, a file that has the final name already counts as begun; it gets that name back when
    nothing comes of it. With `make_directory` the directory is made first.
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
    ) -> None:
        self.path = path
        self.known = Validators()
        self.finished = False
        self.displaced: str | None = None
        self._exists = exists
        self._source = source
        self._adopt = adopt
        self._adopted: int | None = None
        self._noted = False
        self._directory = Directory(os.path.dirname(path) or ".", make=make_directory)
        self._fd = -1
        self._name = os.path.basename(path)
        self._part = f"{self._name}.part"
        self._state = f"{self._name}.part-state"

    async def __aenter__(self) -> Sink:
        try:
            self._open()
        except OSError as error:
            self._close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd == -1:
            self._close()
        elif self._adopted is not None and self.position == self._adopted:
            with suppress(OSError, LocalError):
                self._give_back()
            self._close()
        elif self._adopted is not None or self._is_worth_keeping(kind):
            self.keep()
        else:
            self.discard()

    def _is_worth_keeping(self, kind: type[BaseException] | None) -> bool:
        """Could another run go on with it? Who interrupts us gets to keep what arrived in any case."""
        interrupted = kind is not None and issubclass(kind, trio.Cancelled)
        return self.position > 0 and (self.known != Validators() or (interrupted and self._noted))

    def _open(self) -> None:
        if self._name in ("", ".", ".."):
            raise LocalError(f"cannot write {self.path!r}: this is the name of a directory")
        self._directory.hold()
        state = read_state(self._state, self._directory.fd)
        there = self._directory.status_of(self._name)
        if there is not None:
            state = self._meet_the_finished(there, state)
        if not self.finished:
            self._take_part(state)

    def _meet_the_finished(self, there: os.stat_result, state: PartState | None) -> PartState | None:
        """There is a file of the final name: ours from a run that was killed at the very end, or not."""
        if state is not None and state.url == self._source and state.complete == there.st_ino:
            if self._directory.names(self._part, there):
                self._directory.forget(self._part)
            self._directory.forget(self._state)
            self.finished = self._exists == "fail" and not self._adopt
            state = None
        if self._adopt:
            return self._begin_with(there)
        if self._exists == "fail" and not self.finished:
            raise self._taken()
        self._check_replaceable(there)
        return state

    def _check_replaceable(self, there: os.stat_result | None) -> None:
        """A file may be replaced, and a link to one. A device or a pipe is no file that somebody saved: with
        enough rights, replacing `/dev/null` would be possible."""
        if there is not None and not (stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode)):
            raise self._irregular()

    def _begin_with(self, there: os.stat_result) -> PartState:
        """The file of the final name becomes NAME.part. The state is written first, and names it ours."""
        if not stat.S_ISREG(there.st_mode):
            raise self._irregular()
        if self._directory.names(self._part, there):  # a run was killed between two steps
            self._directory.forget(self._part)
        elif self._directory.status_of(self._part) is not None:
            raise self._foreign()
        state = PartState(self._source, Validators())
        write_state(self._state, self._directory.fd, state)
        self._directory.replace(self._name, self._part)
        self._adopted = there.st_size
        return state

    def _give_back(self) -> None:
        """Nothing came behind what had the final name before: it has that name again."""
        self._check_part()
        self._name_it()
        self._adopted = None
        self._directory.forget(self._state)

    def _take_part(self, state: PartState | None) -> None:
        try:
            self._fd = self._directory.create(self._part)
        except FileExistsError:
            self._take_up(state)
        else:
            self._lock()
            self._check_free()

    def _check_free(self) -> None:
        """Whoever had NAME.part a moment ago may have given it its name since that was looked for."""
        if self._exists == "fail" and not self.finished and self._directory.status_of(self._name) is not None:
            self._directory.forget(self._part)
            raise self._taken()

    def _take_up(self, state: PartState | None) -> None:
        """Go on with a file of an earlier run. An empty one is ours too: the state is written next."""
        try:
            self._fd = self._directory.open(self._part)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise
            raise self._foreign() from error
        self._lock()
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode) or (state is None and found.st_size):
            raise self._foreign()
        if state is not None and state.url == self._source:
            self.known = state.known
            os.lseek(self._fd, 0, os.SEEK_END)
        else:
            self.displaced = None if state is None else state.url
            self.restart()

    def _lock(self) -> None:
        """Keep others out. Whoever had the file before may have given it its final name meanwhile."""
        if not lock(self._fd) or not self._directory.names(self._part, os.fstat(self._fd)):
            raise self._busy()

    def _busy(self) -> LocalError:
        return LocalError(f"{self.path + '.part'!r} is being written by another transfer")

    def _foreign(self) -> LocalError:
        return LocalError(
            f"{self.path + '.part'!r} exists and is no transfer that could go on; remove it to start anew"
        )

    def _taken(self) -> LocalError:
        return LocalError(f"{self.path!r} exists already and is left as it is (--exists chooses otherwise)")

    def _irregular(self) -> LocalError:
        return LocalError(f"{self.path!r} is no regular file and is left as it is; choose another name")

    async def remember(self, known: Validators) -> None:
        """Write down what the octets that follow are of, before the first of them is written."""
        self.known = known
        await self._note(complete=False)

    async def _note(self, *, complete: bool) -> None:
        state = PartState(self._source, self.known, os.fstat(self._fd).st_ino if complete else None)
        try:
            await trio.to_thread.run_sync(write_state, self._state, self._directory.fd, state)
        except OSError as error:
            raise writing_fault(error, self.path) from error
        self._noted = True

    def restart(self) -> None:
        """Begin again at octet 0: what was there is of another state of the object. What had the final
        name before has it again, until the new file takes its place."""
        try:
            if self._adopted is not None:
                self._put_back()
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        except OSError as error:
            raise writing_fault(error, self.path) from error
        self.known = Validators()

    def _put_back(self) -> None:
        """The file that was adopted stays as it was; what comes now goes into one of its own."""
        self._give_back()
        os.close(self._fd)
        self._fd = -1
        self._exists = "replace"
        self._take_part(None)

    def tail(self, count: int) -> bytes:
        """The last `count` octets."""
        return os.pread(self._fd, count, max(0, self.position - count))

    def fileno(self) -> int:
        return self._fd

    @property
    def position(self) -> int:
        """Octets in the file so far, those moved in bulk included."""
        return os.lseek(self._fd, 0, os.SEEK_CUR)

    def write(self, octets: bytes | memoryview) -> None:
        left = memoryview(octets)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            raise writing_fault(error, self.path) from error

    async def digest(self, algorithm: str) -> str:
        """The digest of what is in the file, in hex. It is read in a worker thread, piece by piece, so that
        a cancellation is heeded soon."""
        digest = hashlib.new(algorithm)
        offset = 0
        while count := await trio.to_thread.run_sync(self._add_to, digest, offset):
            offset += count
        return digest.hexdigest()

    def _add_to(self, digest: Hash, offset: int) -> int:
        """Some more of the file; how many octets."""
        count = 0
        try:
            while count < _HASHED_AT_ONCE and (octets := os.pread(self._fd, _PIECE, offset + count)):
                digest.update(octets)
                count += len(octets)
        except OSError as error:
            raise LocalError(f"cannot read back {self.path!r}: {error.strerror}") from error
        return count

    async def commit(self, modified: datetime | None = None) -> None:
        """Bring the file to the disk, set its time, give it its name. In a worker thread, for a disk may
        take seconds; not to be cancelled half way."""
        await self._note(complete=True)
        try:
            await trio.to_thread.run_sync(self._settle, modified)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def _settle(self, modified: datetime | None) -> None:
        if modified is not None:
            with suppress(OSError, OverflowError, ValueError):  # a time that the file system cannot hold
                os.utime(self._fd, (modified.timestamp(), modified.timestamp()))
        os.fsync(self._fd)
        self._check_part()
        if self._exists == "replace":
            self._check_replaceable(self._directory.status_of(self._name))
            self._directory.replace(self._part, self._name)
        else:
            self._name_it()
        self._directory.forget(self._state)
        self._close()

    def _check_part(self) -> None:
        """Is NAME.part still the file that we wrote? Others may be able to write to the directory."""
        if not self._directory.names(self._part, os.fstat(self._fd)):
            raise LocalError(f"{self.path + '.part'!r} was removed or replaced while it was written")

    def _name_it(self) -> None:
        try:
            self._directory.rename(self._part, self._name)
        except FileExistsError as error:
            raise self._taken() from error

    def keep(self) -> None:
        """Close, and leave NAME.part where it is: what arrived can be continued."""
        self._close()

    def discard(self) -> None:
        """Close, and remove NAME.part; harmless after `commit` and `keep`."""
        if self._fd != -1:
            with suppress(OSError, LocalError):
                self._check_part()
                self._directory.forget(self._part)
            self._directory.forget(self._state)
        self._close()

    def _close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1
        self._directory.close()
