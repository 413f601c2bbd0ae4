"""NAME.part from its creation to its final name, and its state for a later run (S14).

A file with the name NAME.part is in one of these states when a run opens it:

- absent: the file is created;
- empty and owned by the user: a run was killed before it wrote the state, so the file is created again;
- its state file and its mark show that this package created it: the file is resumed if the URL is the same,
  and truncated if the URL is another one;
- a copy of such a file: the file is truncated;
- any other file: another program owns it. The file stays as it is, and an error is raised before a request is
  sent.

A process may be killed before each of these steps, so they have this order: create, lock, mark, write the
state, write bytes, mark the state complete, sync, rename, remove the state, remove the token. The lock keeps
two runs apart. The token is removed last, because until then the token proves that the state belongs to this
file.
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

#: The treatment of an existing file of the final name: `fail` before anything is fetched, or `replace`.
Existing: TypeAlias = Literal["fail", "replace"]

#: The errors of opening a file that is a link, a directory, or a pipe without a reader.
_NO_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})


class PartFile:
    """NAME.part and its state file, with the steps between them.

    Methods raise `OSError`, or a `LocalError` that names the failure, the path and the fix.

    Attributes:
        known: The validators of the object that the bytes belong to.
        dropped: The reason why existing bytes could not be resumed, or None.
        kept: Whether a later run could resume the file.
        adopted: The size of a file that had the final name before, or None.
        finished: Whether the file has its final name already and only its state file was left.
        complete: Whether a killed run had completed the file and only the renaming was left.
        whole: The byte ranges that a file with gaps contains; None for a file without gaps.
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
        """Return whether `look` has opened the directory but the file is not open yet."""
        return self.fd == -1 and self.directory.fd != -1

    @property
    def position(self) -> int:
        """Return the number of bytes in the file, including bytes that sendfile or splice moved."""
        return os.lseek(self.fd, 0, os.SEEK_CUR)

    def look(self) -> bool:
        """Return whether the file can stay in memory until it is complete.

        Two conditions are necessary. No file has the final name or a related name, except a file that is to
        be replaced. Permissions seem to allow new files. Raises an error if the file cannot be written at
        all.
        """
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
        """Return whether neither the final name nor NAME.part is taken."""
        status_of = self.directory.status_of
        return status_of(self._part) is None and status_of(self.name) is None

    @property
    def replaces(self) -> bool:
        """Return whether the file replaces an existing file of its name."""
        return self._exists == "replace"

    def _hold(self) -> None:
        check_name(self.path)
        self.directory.hold()
        if self._has_sidecar:
            self._sidecar.check()

    def open(self) -> None:
        """Create NAME.part, or resume the file that an earlier run left for the same source."""
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
        """Open the file, and write the bytes that were in memory until now."""
        known = self.known
        try:
            self.open()
            if self.finished:
                raise make_taken_error(self.path)
        except BaseException:
            self._close_file()  # The file may belong to another process, so it is closed but not removed.
            raise
        self.restart()
        self.known = known
        if octets:
            self.note(known, complete=False)
            write_all(self.fd, octets, self.path)

    # -- existing files

    def _was_killed_behind(self, there: os.stat_result, state: PartState | None) -> bool:
        """Return whether a run was killed after it had renamed this file to its final name.

        If so, the remaining steps of that run are taken.
        """
        if state is None or state.url != self._source or not (state.complete and state.mark.names(there)):
            return False
        if self.directory.names(self._part, there):
            self.directory.forget(self._part)
        fd = self.directory.open(self.name, os.O_RDONLY)
        try:
            if not (is_own(os.fstat(fd)) and state.mark.is_on(fd)):
                return False
            with suppress(OSError, LocalError):  # Another program created that sidecar meanwhile.
                self._sidecar.settle()
            self._conclude(fd, state.withheld)
        finally:
            os.close(fd)
        return True

    def _begin_with(self, there: os.stat_result, state: PartState | None) -> None:
        """Rename the file of the final name to NAME.part, after the state file names that file.

        If NAME.part already exists as its replacement, resume NAME.part instead.
        """
        if not stat.S_ISREG(there.st_mode):
            raise make_irregular_error(self.path)
        if self.directory.names(self._part, there):  # A run was killed between link and unlink.
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
        # An earlier run had already removed the write permission of other users.
        if state is not None and state.mark.names(found):
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
        """Create a new file that no other user may write to until it is complete.

        If the file was writable by other users for a moment, it is replaced by a new file without that
        permission.
        """
        self.fd = self.directory.create(self._part)
        self._withheld = os.fstat(self.fd).st_mode & OTHERS_WRITE
        if self._withheld:
            self.directory.forget(self._part)
            os.close(self.fd)
            self.fd = self.directory.create(self._part, 0o666 & ~OTHERS_WRITE)
        self._lock(self._part)

    def _check_free(self) -> None:
        """Check again that the final name is free.

        Another run may have renamed its NAME.part since the first check.
        """
        if self._exists == "fail" and self.directory.status_of(self.name) is not None:
            self.directory.forget(self._part)
            raise make_taken_error(self.path)

    def _take_up(self, state: PartState | None) -> None:
        """Resume a file of an earlier run, or raise an error if another program owns it."""
        self.fd = self._open_own()
        if not os.fstat(self.fd).st_size:
            return self._create_again()
        if state is None or not is_guarded(os.fstat(self.fd)):
            raise self.directory.make_foreign_error(self._part)
        if state.mark.is_on(self.fd):
            self._go_on(state)
        elif state.mark.is_copied_to(self.fd):
            self.dropped = "the existing part is a copy of the file that was begun"
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
            self.dropped = f"the existing part was begun for {state.url}"
            self.restart()

    def _open_own(self) -> int:
        """Open NAME.part if it belongs to the user and no other process is writing to it."""
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
        # This check follows the lock, because the last step of another transfer leaves the file with two
        # names for a moment.
        if not is_own(os.fstat(self.fd)):
            raise self.directory.make_foreign_error(self._part)
        return self.fd

    def _create_again(self) -> None:
        """Replace an empty file, which other users may have been able to open."""
        self.directory.forget(self._part)
        os.close(self.fd)
        try:
            self._create()
        except FileExistsError as error:
            raise make_busy_error(self.path) from error
        self._check_free()

    def _lock(self, name: str) -> None:
        """Lock the file, and check its name: the previous holder may have renamed it meanwhile."""
        if not lock(self.fd) or not self.directory.names(name, os.fstat(self.fd)):
            raise make_busy_error(self.path)

    # -- recording and finishing

    def note(self, known: Validators, *, complete: bool) -> None:
        """Write the state for a later run.

        If the file system cannot keep other users from writing to the file or its state, no later run could
        trust the two files. In this case the file is not kept.
        """
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
        """Restart at byte 0. An adopted file gets its final name back until the new file replaces it."""
        if self.adopted is not None:
            self._put_back()
        self.cut(0)
        self.known = Validators()

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes without gaps, and continue at its end."""
        os.ftruncate(self.fd, size)
        os.lseek(self.fd, size, os.SEEK_SET)
        self.whole, self.complete = None, False

    def open_again(self) -> int:
        """Open the same file again, with a separate file position."""
        fd = self.directory.open(self._part)
        if not os.path.samestat(os.fstat(fd), os.fstat(self.fd)):
            os.close(fd)
            raise make_replaced_error(self.path)
        return fd

    def _put_back(self) -> None:
        """Give the adopted file its name back, and continue with a new NAME.part."""
        self.give_back()
        os.close(self.fd)
        self.fd, self._mark = -1, None
        self._exists = "replace"
        self._take(None)

    def give_back(self) -> None:
        """Rename an adopted file to its final name again, because no byte was added to it."""
        self._check_part()
        self._name_it()
        self.adopted = None
        self._conclude(self.fd, self._withheld)

    def settle(self, meta: bytes | None, *, durable: bool = False) -> None:
        """Rename the file, which is synced to the disk, to its final name, and write its sidecar.

        Args:
            meta: The content of the sidecar; None writes no sidecar.
            durable: Whether the directory is synced, too.
        """
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
        """Raise an error unless NAME.part is still this file: other users may write to the directory."""
        if not self.directory.names(self._part, os.fstat(self.fd)):
            raise make_replaced_error(self.path)

    def _name_it(self) -> None:
        try:
            self.directory.rename(self._part, self.name)
        except FileExistsError as error:
            raise make_taken_error(self.path) from error

    def _conclude(self, fd: int, withheld: int) -> None:
        """Restore the permissions and remove the state of a file that has its final name.

        The token is removed last, because until then the token proves that the state belongs to this file.
        """
        if withheld:
            with suppress(OSError):
                os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | withheld)
        self._forget_state()
        wipe(fd)

    def _forget_state(self) -> None:
        with suppress(OSError, LocalError):  # Another program owns the state file by now.
            forget_state(self._state, self.directory)

    def discard(self) -> None:
        """Remove the file and close it; has no effect after `close`."""
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
    """A sink for one range of a file, which refuses bytes beyond the end of the range; a context manager."""

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
        """Return the file offset at which the next byte is written."""
        return self._closed_at if self._fd == -1 else os.lseek(self._fd, 0, os.SEEK_CUR)

    def fileno(self) -> int:
        return self._fd

    def write(self, octets: bytes | memoryview) -> None:
        if self.position + len(octets) > self.end:
            raise ProtocolError(f"expected {self.end - self.begin} bytes in this range, got more")
        write_all(self._fd, octets, self._path)
