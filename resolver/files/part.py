"""The partial file NAME.part, from its creation to its renaming, and the state for a later run (S14).

When a run opens NAME.part, one of these cases applies:

- A missing file is created.
- An empty file of the user is created again, because an earlier run was killed before it wrote the state.
- A file that this package created is resumed if the URL is the same, and otherwise truncated. The state file
  and the mark prove that this package created the file.
- If the file is a copy of a file that this package created, the copy is truncated.
- Any other file belongs to another program. A file of another program stays unchanged, and an error is raised
  before a request is sent.

A file is saved in this order: create, lock, mark, write the state, write bytes, mark the state as complete,
sync, rename, remove the state, remove the token. If the process is killed before any of these steps, a later
run can recover. The lock prevents two runs from writing to the same file. The token is removed last, because
the token proves that the state belongs to the file.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias

from protocols.contract import Validators
from protocols.errors import LocalError, ProtocolError
from protocols.options import NOTHING
from resolver.files.atomic import lock, write_all
from resolver.files.directory import DirectoryHandle
from resolver.files.faults import closing_descriptor, convert_faults
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
    has_mark,
    is_guarded,
    is_own,
    make_temporary_name,
    put_mark,
    read_state,
    remove_mark,
    write_state,
)
from resolver.files.sidecar import Sidecar
from resolver.policy.files import PART_SUFFIX, STATE_SUFFIX

#: The action if a file with the final name exists: `fail` before a request is sent, or `replace` the file.
Existing: TypeAlias = Literal["fail", "replace"]

#: `errno` codes of opening a symlink, a directory, or a pipe without a reader.
_NO_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})

#: The position of each opened file in the order in which files were opened.
open_numbers = itertools.count(1)


class PartFile:
    """The partial file NAME.part with its state file.

    Methods raise `OSError`, or a `LocalError` whose message contains the failure, the path and the fix.

    Attributes:
        known: The validators of the object that the bytes belong to.
        dropped: The reason why existing bytes could not be resumed, or None.
        can_resume: Whether a later run could resume the file.
        adopted: The size of an existing file with the final name that was renamed to NAME.part, by this run
            or by a killed run. None for any other file.
        finished: Whether a killed run had already renamed the file but had not removed the state file.
        complete: Whether a killed run had completed the file but had not renamed it.
        ranges: The byte ranges that the file contains, if the file has gaps. None for a file without gaps.
        open_number: The number of the opened file from `open_numbers`.
    """

    def __init__(
        self,
        path: str,
        *,
        source: str,
        exists: Existing = "fail",
        adopt: bool = False,
        make_directory: bool = False,
        below: str | None = None,
        meta: bool = False,
    ) -> None:
        self.fd = -1
        self.open_number = 0
        self.known = NOTHING
        self.dropped: str | None = None
        self.can_resume = False
        self.adopted: int | None = None
        self.finished = False
        self.complete = False
        self.ranges: Ranges | None = None
        self.path = path
        self._exists = exists
        self._source = source
        self._adopt = adopt
        self._is_taken = False
        self._mark: FileIdentity | None = None
        self._withheld = 0
        directory, self.name = os.path.split(path)
        self.directory = DirectoryHandle(directory, make=make_directory, below=below, temporary=True)
        self._part = self.name + PART_SUFFIX
        self._state = self.name + STATE_SUFFIX
        self._has_sidecar = meta

    @property
    def is_waiting(self) -> bool:
        """Return whether the directory is open and the file is not open."""
        return self.fd == -1 and self.directory.fd != -1

    @property
    def position(self) -> int:
        """Return the number of bytes in the file, including bytes written by sendfile or splice."""
        return os.lseek(self.fd, 0, os.SEEK_CUR)

    @property
    def has_name(self) -> bool:
        """Return whether NAME.part is still the name of the open file. Raises `OSError`."""
        return self.directory.has(self._part, os.fstat(self.fd))

    def can_buffer(self) -> bool:
        """Return whether the file can stay in memory until it is complete.

        The names of the partial file and the state file must be free. The final name must also be free,
        unless the existing file may be replaced. The permissions of the directory must allow new files.

        Raises:
            LocalError: The file cannot be written.
        """
        self._open_directory()
        status_of = self.directory.status_of
        existing = status_of(self.name)
        if existing is not None:
            if self._exists == "fail" or self._adopt:
                return False
            check_replaceable(existing, self.path)
        self._is_taken = existing is not None
        for name in (self._part, self._state, make_temporary_name(self._state)):
            if status_of(name) is not None:
                return False
        self._adopt = False
        return self.directory.may_be_written

    @property
    def is_free(self) -> bool:
        """Return whether NAME.part is free, and the final name was free when `can_buffer` was called."""
        return not self._is_taken and self.directory.status_of(self._part) is None

    @property
    def can_replace(self) -> bool:
        """Return whether the file may replace an existing file with the final name."""
        return self._exists == "replace"

    def _open_directory(self) -> None:
        check_name(self.path)
        self.directory.hold()
        if self._has_sidecar:
            Sidecar(self.name, self.directory).check()

    def open(self) -> None:
        """Create NAME.part, or resume the NAME.part of an earlier run for the same URL."""
        if self.directory.fd == -1:
            self._open_directory()
        state = read_state(self._state, self.directory)
        existing = self.directory.status_of(self.name)
        if existing is None:
            return self._create_or_resume(state)
        if self._was_killed_after_rename(existing, state):
            state = None
            self.finished = self._exists == "fail" and not self._adopt
        if self._adopt:
            return self._adopt_existing(existing, state)
        if self.finished:
            return None
        if self._exists == "fail":
            raise make_taken_error(self.path)
        check_replaceable(existing, self.path)
        return self._create_or_resume(state)

    def finish_killed_run(self) -> None:
        """Perform the last steps of a killed run if the file with the final name is its complete file."""
        self.directory.hold()
        if (existing := self.directory.status_of(self.name)) is not None:
            self._was_killed_after_rename(existing, read_state(self._state, self.directory))

    def write_buffer(self, octets: bytes | bytearray) -> None:
        """Open the file and write the bytes from memory."""
        known = self.known
        try:
            self.open()
            if self.finished:
                raise make_taken_error(self.path)
        except BaseException:
            self._close_file()  # Another process may own the file, so the file is not removed.
            raise
        self.restart()
        self.known = known
        if octets:
            self.record_state(known, complete=False)
            write_all(self.fd, octets, self.path)

    # -- existing files

    def _was_killed_after_rename(self, status: os.stat_result, state: PartState | None) -> bool:
        """Return whether a run was killed after its final rename, and perform its remaining steps."""
        if state is None or state.url != self._source or not (state.complete and state.mark.matches(status)):
            return False
        if self.directory.has(self._part, status):
            self.directory.forget(self._part)
        with closing_descriptor(self.directory.open(self.name, os.O_RDONLY)) as fd:
            if not (is_own(os.fstat(fd)) and state.mark.is_on(fd)):
                return False
            with suppress(OSError, LocalError):  # Another program may have created a sidecar.
                Sidecar(self.name, self.directory).publish()
            self._conclude(fd, state.withheld)
        return True

    def _adopt_existing(self, existing: os.stat_result, state: PartState | None) -> None:
        """Adopt the file with the final name: write its state file, and rename the file to NAME.part.

        If NAME.part exists, NAME.part is resumed instead, and later replaces the existing file.
        """
        if not stat.S_ISREG(existing.st_mode):
            raise make_irregular_error(self.path)
        if self.directory.has(self._part, existing):  # a run was killed between link and unlink
            self.directory.forget(self._part)
        elif self.directory.status_of(self._part) is not None:
            self._exists = "replace"
            return self._resume(state)
        self._hold(self.directory.open(self.name))
        self._lock(self.name)
        status = os.fstat(self.fd)
        if not is_own(status):
            raise make_shared_error(self.path)
        self._withheld = status.st_mode & OTHERS_WRITE
        # the killed run had already removed the write permissions of other users
        if state is not None and state.mark.matches(status):
            self._withheld |= state.withheld
        self._mark = put_mark(self.fd)
        self.adopted = os.lseek(self.fd, 0, os.SEEK_END)
        self._write_state(complete=False)
        if self._withheld:
            with suppress(OSError):
                os.fchmod(self.fd, stat.S_IMODE(status.st_mode) & ~OTHERS_WRITE)
        self.directory.replace(self.name, self._part)
        return None

    def _create_or_resume(self, state: PartState | None) -> None:
        try:
            self._create()
        except FileExistsError:
            self._resume(state)
        else:
            self._check_free()

    def _create(self) -> None:
        """Create a new file without write permissions for other users.

        If the umask allows other users to write, another user may already have opened the new file. A file
        that another user could have opened is replaced by a second new file.
        """
        self._hold(self.directory.create(self._part))
        with self._removed_after_error():
            self._withheld = os.fstat(self.fd).st_mode & OTHERS_WRITE
        if self._withheld:
            self.directory.forget(self._part)
            self._close_file()
            self._hold(self.directory.create(self._part, 0o666 & ~OTHERS_WRITE))
        with self._removed_after_error():
            self._lock(self._part)

    @contextmanager
    def _removed_after_error(self) -> Iterator[None]:
        """Remove the new NAME.part after an `OSError`."""
        try:
            yield
        except OSError:
            self.directory.forget(self._part)
            raise

    def _check_free(self) -> None:
        """Raise an exception if another run has created a file with the final name since the first check."""
        with self._removed_after_error():
            is_taken = self._exists == "fail" and self.directory.status_of(self.name) is not None
        if is_taken:
            self.directory.forget(self._part)
            raise make_taken_error(self.path)

    def _resume(self, state: PartState | None) -> None:
        """Resume the file of an earlier run. Raise an exception for a file of another program."""
        self._open_own()
        if state is not None and self.directory.status_of(self.name) is None:
            self.adopted, self._withheld = state.adopted, state.withheld
        if self.adopted is None and not os.fstat(self.fd).st_size:
            return self._create_again()
        if not is_guarded(os.fstat(self.fd)) or (state is None and not has_mark(self.fd)):
            raise self.directory.make_foreign_error(self._part)
        if state is None:
            # The state file is not synced, so a loss of power may leave an empty state file. The version of
            # the object is then unknown. The token shows that this package created NAME.part.
            self.dropped = "the state of the existing part is lost"
            self.restart()
        elif state.mark.is_on(self.fd):
            self._apply_state(state)
        elif state.mark.is_copied_to(self.fd):
            self.dropped = "the existing part is a copy of the file that was begun"
            self.restart()
        else:
            raise self.directory.make_foreign_error(self._part)

    def _apply_state(self, state: PartState) -> None:
        self._mark, self._withheld = state.mark, state.withheld
        if state.url == self._source:
            self.known = state.known
            self.can_resume, self.complete = True, state.complete
            size = os.lseek(self.fd, 0, os.SEEK_END)
            self.ranges = None if state.ranges is None else clip_ranges(state.ranges, size)
        else:
            self.dropped = f"the existing part was begun for {state.url}"
            self.restart()

    def _open_own(self) -> None:
        """Open NAME.part if it belongs to the user and no other process is writing to it."""
        status = self.directory.status_of(self._part)
        if status is None:
            raise make_busy_error(self.path)
        if not (stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()):
            raise self.directory.make_foreign_error(self._part)
        try:
            self._hold(self.directory.open(self._part))
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise self.directory.make_foreign_error(self._part) from error
        self._lock(self._part)
        # While another transfer renames the file, the file has two hard links. So the check for a single hard
        # link comes after the lock is acquired.
        if not is_own(os.fstat(self.fd)):
            raise self.directory.make_foreign_error(self._part)

    def _hold(self, fd: int) -> None:
        self.fd, self.open_number = fd, next(open_numbers)

    def _create_again(self) -> None:
        """Replace an empty file by a new file, because other users may have opened the empty file."""
        self.directory.forget(self._part)
        if self.directory.has(self._part, os.fstat(self.fd)):  # for example, the directory is append-only
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        self._close_file()
        try:
            self._create()
        except FileExistsError as error:
            raise make_busy_error(self.path) from error
        self._check_free()

    def _lock(self, name: str) -> None:
        """Lock the file, and check that the previous owner of the lock has not renamed it."""
        if not lock(self.fd) or not self.directory.has(name, os.fstat(self.fd)):
            raise make_busy_error(self.path)

    # -- recording and finishing

    def record_state(self, known: Validators, *, complete: bool) -> None:
        """Write the state for a later run.

        On some file systems, other users can always write to NAME.part and the state file. `can_resume` then
        becomes False, because a later run could not trust the files.
        """
        self.known = known
        if self._mark is None:
            self._mark = put_mark(self.fd)
        self.can_resume = self._write_state(complete=complete) and is_guarded(os.fstat(self.fd))

    def _write_state(self, *, complete: bool) -> bool:
        assert self._mark is not None
        spans = None if complete else self.ranges
        state = PartState(self._source, self.known, self._mark, self._withheld, complete, spans, self.adopted)
        # A partial file with a lost state is restarted at byte 0. If the partial file may be an existing file
        # of the user, the state must survive a loss of power.
        return write_state(self._state, self.directory, state, sync=self._adopt or self.adopted is not None)

    def restart(self) -> None:
        """Restart the download at byte 0.

        An adopted file first gets its final name back, and a new NAME.part is created.
        """
        if self.adopted is not None:
            self._restart_adopted()
        self.truncate(0)
        self.known = NOTHING

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, and set the file position to the end."""
        os.ftruncate(self.fd, size)
        os.lseek(self.fd, size, os.SEEK_SET)
        self.ranges, self.complete = None, False

    def open_again(self) -> int:
        """Open NAME.part again, and return a descriptor with a separate file position."""
        fd = self.directory.open(self._part)
        if not os.path.samestat(os.fstat(fd), os.fstat(self.fd)):
            os.close(fd)
            raise make_replaced_error(self.path)
        return fd

    def _restart_adopted(self) -> None:
        """Rename the adopted file to its final name without new bytes, and create a new NAME.part."""
        assert self.adopted is not None
        if self.position > self.adopted:
            self.truncate(self.adopted)
        self.restore_name()
        if not (self._adopt or self.can_replace):
            self.can_resume = False
            raise make_taken_error(self.path)
        os.close(self.fd)
        self.fd, self._mark = -1, None
        self._exists = "replace"
        self._create_or_resume(None)

    def restore_name(self) -> None:
        """Rename an adopted file to its final name, because no bytes were appended."""
        self._check_part()
        self._rename()
        self.adopted = None
        self._conclude(self.fd, self._withheld)

    def publish(self, meta: bytes | None, *, durable: bool = False) -> None:
        """Rename the synced file to its final name, and write the sidecar.

        Args:
            meta: The content of the sidecar, or None for no sidecar.
            durable: Whether the directory is also synced.
        """
        self._check_part()
        sidecar = Sidecar(self.name, self.directory)
        try:
            sidecar.prepare_rename(meta)
            if self._exists == "replace":
                check_replaceable(self.directory.status_of(self.name), self.path)
                self.directory.replace(self._part, self.name)
            else:
                self._rename()
        except BaseException:
            sidecar.discard_temporary()
            raise
        if meta is not None:
            sidecar.publish()
        self._conclude(self.fd, self._withheld)
        if durable:
            self.directory.sync()
        self.close()

    def _check_part(self) -> None:
        """Raise an error if another user has removed or replaced NAME.part."""
        if not self.has_name:
            raise make_replaced_error(self.path)

    def _rename(self) -> None:
        try:
            self.directory.rename(self._part, self.name)
        except FileExistsError as error:
            raise make_taken_error(self.path) from error

    def _conclude(self, fd: int, withheld: int) -> None:
        """Restore the permissions of a renamed file, and then remove its state file and its token.

        The token is removed last, because it proves that the state belongs to the file. If the state cannot
        be removed, the token stays, so that the next run can remove both.
        """
        if withheld:
            with suppress(OSError):
                os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | withheld)
        self._forget_state()
        with suppress(OSError):
            if self.directory.status_of(self._state) is None:
                remove_mark(fd)

    def drop_leftovers(self) -> None:
        """Remove NAME.part and the state file of a complete file, even if the state is lost.

        The caller must know that the file is complete. After a power failure, the file may have two names:
        its final name and NAME.part.
        """
        existing = self.directory.status_of(self.name)
        if existing is not None and self.directory.has(self._part, existing):
            self.directory.forget(self._part)
        if self.directory.status_of(self._part) is None:
            self._forget_state()

    def _forget_state(self) -> None:
        with suppress(OSError, LocalError):  # Another program may have replaced the state file.
            forget_state(self._state, self.directory)

    def discard(self) -> None:
        """Remove and close the file; the call has no effect after `close`."""
        if self.fd != -1:
            with suppress(OSError, LocalError):
                self._check_part()
                self.directory.forget(self._part)
            self._forget_state()
        self.close()

    def close(self) -> None:
        if self.fd != -1:
            self._close_file()
        self.directory.close()

    def _close_file(self) -> None:
        if self.fd != -1:
            with suppress(OSError):  # A complete file is synced, and a later run checks a partial file.
                os.close(self.fd)
        self.fd = -1


class Segment:
    """A sink for one byte range of a file, as a context manager. Bytes after its end are an error."""

    def __init__(self, fd: int, path: str, begin: int, end: int) -> None:
        self._fd = fd
        self._path = path
        self.begin = begin
        self.end = end
        os.lseek(fd, begin, os.SEEK_SET)
        self._closed_at = begin

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed_at = self.position
        fd, self._fd = self._fd, -1
        with convert_faults(self._path):  # A network file system reports some write errors here.
            os.close(fd)

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
