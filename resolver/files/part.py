"""NAME.part from its first name to its last: a growing file, and its state for a later run (S14).

A file of that name is resumed if its state and its mark show that a run of ours began it. An empty file of
ours comes from a run that was killed before it wrote the state. Any other file belongs to somebody else: it
is left as it is, and is an error before anything is sent.

The order of the steps allows a process to be killed before each of them.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from types import TracebackType
from typing import Literal, TypeAlias

from protocols.contract import Validators
from protocols.errors import LocalError, ProtocolError
from resolver.files.atomic import lock
from resolver.files.directory import DirectoryHandle
from resolver.files.names import (
    check_name,
    check_replaceable,
    make_busy_error,
    make_irregular_error,
    make_replaced_error,
    make_shared_error,
    make_taken_error,
)
from resolver.files.part_state import (
    OTHERS_WRITE,
    FileIdentity,
    PartState,
    Ranges,
    clip_ranges,
    forget_state,
    is_guarded,
    is_own,
    make_temporary_name,
    put_mark,
    read_state,
    wipe,
    write_all,
    write_state,
)
from resolver.files.sidecar import Sidecar
from resolver.policy.files import PART_SUFFIX, STATE_SUFFIX

#: What to do about a file that has the name already: `fail` before anything is fetched, or `replace`.
Existing: TypeAlias = Literal["fail", "replace"]

#: No file but a link, a directory, a pipe that nobody reads.
_NO_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})


class PartFile:
    """Raises `OSError`, and `LocalError` that says what, where and what to do.

    `known` is of what the octets in it are; `dropped` says what was there that is not gone on with; `kept`
    that another run could find it. `adopted` is the size of a file that had the final name before.
    `finished`: the file has its name already, and only what tells of that was left; `complete`: it was killed
    before it had it, and nothing else was left. `whole` are the octets that are there of a file with gaps,
    None of one without.
    """

    def __init__(
        self,
        path: str,
        *,
        exists: Existing,
        source: str,
        adopt: bool,
        make_directory: bool,
        below: str | None = None,
        meta: bool = False,
    ) -> None:
        self.fd = -1
        self.known = Validators()
        self.dropped: str | None = None
        self.kept = False
        self.adopted: int | None = None
        self.finished = False
        self.complete = False
        self.whole: Ranges | None = None
        self.path = path
        self._exists = exists
        self._source = source
        self._adopt = adopt
        self._mark: FileIdentity | None = None
        self._withheld = 0
        self.directory = DirectoryHandle(
            os.path.dirname(path), make=make_directory, below=below, passing=True
        )
        self.name = os.path.basename(path)
        self._part = self.name + PART_SUFFIX
        self._state = self.name + STATE_SUFFIX
        self._sidecar = Sidecar(self.name, self.directory)
        self._has_sidecar = meta

    @property
    def is_waiting(self) -> bool:
        """Was it looked at, and nothing more?"""
        return self.fd == -1 and self.directory.fd != -1

    @property
    def position(self) -> int:
        """Octets in the file so far, those moved in bulk included."""
        return os.lseek(self.fd, 0, os.SEEK_CUR)

    def look(self) -> bool:
        """Can it wait until all of it is there? Where nothing has any of its names but what it replaces, and
        files may be made there, as far as that can be told. Raises what tells that there will be none."""
        self._hold()
        status_of = self.directory.status_of
        there = status_of(self.name)
        if there is not None:
            if self._exists == "fail" or self._adopt:
                return False
            check_replaceable(there, self.path)
        if any(
            status_of(name) is not None
            for name in (self._part, self._state, make_temporary_name(self._state))
        ):
            return False
        self._adopt = False
        return self.directory.may_be_written

    @property
    def is_free(self) -> bool:
        """Has nothing its name, and is nobody writing to it?"""
        status_of = self.directory.status_of
        return status_of(self._part) is None and status_of(self.name) is None

    @property
    def replaces(self) -> bool:
        """Does it take the place of a file that has its name?"""
        return self._exists == "replace"

    def _hold(self) -> None:
        check_name(self.path)
        self.directory.hold()
        if self._has_sidecar:
            self._sidecar.check()

    def open(self) -> None:
        """Create it, or take up what an earlier run left for the same source."""
        if self.directory.fd == -1:
            self._hold()
        state = read_state(self._state, self.directory)
        there = self.directory.status_of(self.name)
        if there is None:
            return self._take(state)
        if self._was_killed_behind(there, state):
            state = None
            self.finished = self._exists == "fail" and not self._adopt
        if self._adopt:
            return self._begin_with(there, state)
        if self.finished:
            return None
        if self._exists == "fail":
            raise make_taken_error(self.path)
        check_replaceable(there, self.path)
        return self._take(state)

    def begin_with(self, octets: bytes | bytearray) -> None:
        """Open it for octets that were held until now, and write them, if there are any."""
        known = self.known
        try:
            self.open()
            if self.finished:
                raise make_taken_error(self.path)
        except BaseException:
            self._close_file()  # it may be somebody's
            raise
        self.restart()
        self.known = known
        if octets:
            self.note(known, complete=False)
            write_all(self.fd, octets, self.path)

    # -- what is there

    def _was_killed_behind(self, there: os.stat_result, state: PartState | None) -> bool:
        """Is the file that has the final name ours, of a run that was killed at the very end?"""
        if state is None or state.url != self._source or not (state.complete and state.mark.names(there)):
            return False
        if self.directory.names(self._part, there):
            self.directory.forget(self._part)
        fd = self.directory.open(self.name, os.O_RDONLY)
        try:
            if not (is_own(os.fstat(fd)) and state.mark.is_on(fd)):
                return False
            with suppress(OSError, LocalError):  # that of somebody else, who was there meanwhile
                self._sidecar.settle()
            self._conclude(fd, state.withheld)
        finally:
            os.close(fd)
        return True

    def _begin_with(self, there: os.stat_result, state: PartState | None) -> None:
        """The file of the final name becomes NAME.part, once the state says that it is ours. Where something
        was begun in its place already, that is gone on with."""
        if not stat.S_ISREG(there.st_mode):
            raise make_irregular_error(self.path)
        if self.directory.names(self._part, there):  # a run was killed between two steps
            self.directory.forget(self._part)
        elif self.directory.status_of(self._part) is not None:
            self._exists = "replace"
            return self._take_up(state)
        self.fd = self.directory.open(self.name)
        self._lock(self.name)
        found = os.fstat(self.fd)
        if not is_own(found):
            raise make_shared_error(self.path)
        self._withheld = found.st_mode & OTHERS_WRITE
        if state is not None and state.mark.names(found):  # that run had withheld it already
            self._withheld |= state.withheld
        self._mark = put_mark(self.fd)
        self._write_state(complete=False)
        if self._withheld:
            with suppress(OSError):
                os.fchmod(self.fd, stat.S_IMODE(found.st_mode) & ~OTHERS_WRITE)
        self.directory.replace(self.name, self._part)
        self.adopted = os.lseek(self.fd, 0, os.SEEK_END)
        return None

    def _take(self, state: PartState | None) -> None:
        try:
            self._create()
        except FileExistsError:
            self._take_up(state)
        else:
            self._check_free()

    def _create(self) -> None:
        """A new file. Whoever else may write to it once it is done has to wait until then: one that was open
        to others for a moment is made again."""
        self.fd = self.directory.create(self._part)
        self._withheld = os.fstat(self.fd).st_mode & OTHERS_WRITE
        if self._withheld:
            self.directory.forget(self._part)
            os.close(self.fd)
            self.fd = self.directory.create(self._part, 0o666 & ~OTHERS_WRITE)
        self._lock(self._part)

    def _check_free(self) -> None:
        """Whoever had NAME.part a moment ago may have given it its name since that was looked for."""
        if self._exists == "fail" and self.directory.status_of(self.name) is not None:
            self.directory.forget(self._part)
            raise make_taken_error(self.path)

    def _take_up(self, state: PartState | None) -> None:
        """Go on with a file of an earlier run, or say whose it is not."""
        self.fd = self._open_own()
        if not os.fstat(self.fd).st_size:
            return self._create_again()
        if state is None or not is_guarded(os.fstat(self.fd)):
            raise self.directory.make_foreign_error(self._part)
        if state.mark.is_on(self.fd):
            self._go_on(state)
        elif state.mark.is_copied_to(self.fd):
            self.dropped = "what was there is a copy of what was begun"
            self.restart()
        else:
            raise self.directory.make_foreign_error(self._part)

    def _go_on(self, state: PartState) -> None:
        self._mark, self._withheld = state.mark, state.withheld
        if state.url == self._source:
            self.known = state.known
            self.kept, self.complete = True, state.complete
            size = os.lseek(self.fd, 0, os.SEEK_END)
            self.whole = None if state.whole is None else clip_ranges(state.whole, size)
        else:
            self.dropped = f"what was there was begun for {state.url}"
            self.restart()

    def _open_own(self) -> int:
        """What has the name of NAME.part, if it is ours and nobody else is writing to it."""
        found = self.directory.status_of(self._part)
        if found is None:
            raise make_busy_error(self.path)
        if not (stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()):
            raise self.directory.make_foreign_error(self._part)
        try:
            self.fd = self.directory.open(self._part)
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise self.directory.make_foreign_error(self._part) from error
        self._lock(self._part)
        if not is_own(os.fstat(self.fd)):  # only now: the last step of another transfer is two names
            raise self.directory.make_foreign_error(self._part)
        return self.fd

    def _create_again(self) -> None:
        """In place of an empty one, which others may have been able to open."""
        self.directory.forget(self._part)
        os.close(self.fd)
        try:
            self._create()
        except FileExistsError as error:
            raise make_busy_error(self.path) from error
        self._check_free()

    def _lock(self, name: str) -> None:
        """Keep others out. Whoever had the file before may have given it another name meanwhile."""
        if not lock(self.fd) or not self.directory.names(name, os.fstat(self.fd)):
            raise make_busy_error(self.path)

    # -- what becomes of it

    def note(self, known: Validators, *, complete: bool) -> None:
        """Write down what is in it, for a later run. Where the file system cannot keep others from writing to
        it no later run could believe that: then nothing is written, and nothing kept."""
        self.known = known
        if self._mark is None:
            self._mark = put_mark(self.fd)
        self.kept = self._write_state(complete=complete) and is_guarded(os.fstat(self.fd))

    def _write_state(self, *, complete: bool) -> bool:
        assert self._mark is not None
        whole = None if complete else self.whole
        state = PartState(self._source, self.known, self._mark, self._withheld, complete, whole)
        return write_state(self._state, self.directory, state)

    def restart(self) -> None:
        """Begin again at octet 0. What had the final name before has it again, until the new file takes its
        place."""
        if self.adopted is not None:
            self._put_back()
        self.cut(0)
        self.known = Validators()

    def cut(self, size: int) -> None:
        """It has as many octets, without a gap, and goes on behind them."""
        os.ftruncate(self.fd, size)
        os.lseek(self.fd, size, os.SEEK_SET)
        self.whole, self.complete = None, False

    def open_again(self) -> int:
        """The same file, with a place of its own where octets go next."""
        fd = self.directory.open(self._part)
        if not os.path.samestat(os.fstat(fd), os.fstat(self.fd)):
            os.close(fd)
            raise make_replaced_error(self.path)
        return fd

    def _put_back(self) -> None:
        """The file that was adopted stays as it was; what comes now goes into one of its own."""
        self.give_back()
        os.close(self.fd)
        self.fd, self._mark = -1, None
        self._exists = "replace"
        self._take(None)

    def give_back(self) -> None:
        """Nothing came behind what had the final name before: it has that name again."""
        self._check_part()
        self._name_it()
        self.adopted = None
        self._conclude(self.fd, self._withheld)

    def settle(self, meta: bytes | None, *, durable: bool = False) -> None:
        """Give it its name, once it is on the disk; and `meta` that of its sidecar. If it is to be `durable`
        the name is on the disk then, too."""
        self._check_part()
        try:
            self._sidecar.make_way(meta)
            if self._exists == "replace":
                check_replaceable(self.directory.status_of(self.name), self.path)
                self.directory.replace(self._part, self.name)
            else:
                self._name_it()
        except BaseException:
            self._sidecar.drop()
            raise
        if meta is not None:
            self._sidecar.settle()
        self._conclude(self.fd, self._withheld)
        if durable:
            self.directory.sync()
        self.close()

    def _check_part(self) -> None:
        """Is NAME.part still the file that we wrote? Others may be able to write to the directory."""
        if not self.directory.names(self._part, os.fstat(self.fd)):
            raise make_replaced_error(self.path)

    def _name_it(self) -> None:
        try:
            self.directory.rename(self._part, self.name)
        except FileExistsError as error:
            raise make_taken_error(self.path) from error

    def _conclude(self, fd: int, withheld: int) -> None:
        """The file has its name: from now on it is like any other. The token goes last, for until then it
        proves that the state is of this file."""
        if withheld:
            with suppress(OSError):
                os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | withheld)
        self._forget_state()
        wipe(fd)

    def _forget_state(self) -> None:
        with suppress(OSError, LocalError):  # somebody else's by now
            forget_state(self._state, self.directory)

    def discard(self) -> None:
        """Remove it, and close; harmless after `close`."""
        if self.fd != -1:
            with suppress(OSError, LocalError):
                self._check_part()
                self.directory.forget(self._part)
            self._forget_state()
        self.close()

    def close(self) -> None:
        self._close_file()
        self.directory.close()

    def _close_file(self) -> None:
        if self.fd != -1:
            os.close(self.fd)
        self.fd = -1


class Segment:
    """A piece of a file that grows: a sink of its own, which takes no octet beyond its end. A context
    manager."""

    def __init__(self, fd: int, path: str, begin: int, end: int) -> None:
        self._fd = fd
        self._path = path
        self.begin = begin
        self.end = end
        os.lseek(fd, begin, os.SEEK_SET)
        self._closed_at = begin

    def __enter__(self) -> Segment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed_at = self.position
        os.close(self._fd)
        self._fd = -1

    @property
    def position(self) -> int:
        """The octet of the file that comes next."""
        return self._closed_at if self._fd == -1 else os.lseek(self._fd, 0, os.SEEK_CUR)

    def fileno(self) -> int:
        return self._fd

    def write(self, octets: bytes | memoryview) -> None:
        if self.position + len(octets) > self.end:
            raise ProtocolError(f"more octets came than the {self.end - self.begin} that were asked for")
        write_all(self._fd, octets, self._path)
