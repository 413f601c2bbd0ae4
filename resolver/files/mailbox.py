"""News articles as messages in an mbox file (RFC 4155, mboxrd quoting) or in a Maildir.

The article number is stored with each message, so a later run does not request the article again. Messages
are appended to an mbox file. A state file next to the mbox file records the size of the complete messages
(S14). If a run is killed, the next run truncates the mbox file to the recorded size, so no incomplete message
stays. Lines end with LF, as in Unix files. All other bytes of an article stay unchanged.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from protocols.errors import LocalError
from resolver.files.atomic import lock, sync_file, whole_file, write_all
from resolver.files.directory import NO_LINKS, DirectoryHandle
from resolver.files.faults import closing_descriptor, writing_fault
from resolver.files.names import check_name
from resolver.policy.files import FIRST_SUFFIX, STATE_SUFFIX

_FORMAT = "url-resolver mailbox state 1"
_QUOTED = re.compile(rb"^(>*From )", re.MULTILINE)

#: The number of bytes between two updates of the mailbox's state file. After a crash, at most this number of
#: bytes is requested again.
_STATE_INTERVAL = 1_048_576

#: The maximum number of bytes of a line that are read in one step, and the maximum size of a state file.
_PIECE = 65_536


class Mailbox(Protocol):
    """A destination for messages: an mbox file or a Maildir.

    The methods wait for the disk, so the caller runs them in a thread. The methods raise `LocalError`.
    """

    @property
    def numbers(self) -> set[int]:
        """Return the numbers of the articles in the mailbox."""
        ...

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def open(self) -> None: ...

    def add(self, number: int, moment: datetime, article: bytes) -> None:
        """Append an article with the date `moment`."""
        ...

    def close(self) -> None: ...


class Mbox:
    """An mbox file.

    Args:
        path: The name of the mbox file.
        source: The name of the server and group that assigned the article numbers, without spaces.
        make_directory: Whether a missing directory is created.
    """

    def __init__(self, path: str, source: str, *, make_directory: bool = False) -> None:
        self.numbers: set[int] = set()
        self.size = 0
        self._path = path
        self._source = source.encode("utf-8", "surrogateescape")
        self._directory = DirectoryHandle(os.path.dirname(path), make=make_directory)
        self._name = os.path.basename(path)
        self._state = self._name + STATE_SUFFIX
        self._fd = -1
        self._recorded_size = 0

    def open(self) -> None:
        check_name(self._path)
        with _convert_errors(self._path):
            try:
                self._directory.hold()
                self._open_file()
            except BaseException:
                self._release()
                raise

    def _open_file(self) -> None:
        try:
            self._fd = self._directory.create(self._name)
        except FileExistsError:
            self._fd = self._directory.open(self._name)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise LocalError(f"{self._path!r} is not a regular file of this user: choose another name")
        if not lock(self._fd):
            raise LocalError(f"{self._path!r} is being written by another process")
        self._recover(status)
        self.size = self._recorded_size = os.fstat(self._fd).st_size
        if self.size:
            self._read()
        self._record_state()
        os.lseek(self._fd, 0, os.SEEK_END)

    def _recover(self, status: os.stat_result) -> None:
        """Truncate the file to the size that a killed run recorded.

        Raises:
            LocalError: Another program has appended messages, or the state describes another file.
        """
        state = self._read_state()
        if state is None or not status.st_size:
            return
        size, inode = state
        if inode != status.st_ino or size > status.st_size:
            raise LocalError(
                f"{self._path!r} is not the file that an earlier run began: "
                f"remove {self._path + STATE_SUFFIX!r} if the mailbox is complete"
            )
        if any(source != self._source for source, _ in self._messages(size)):
            raise LocalError(
                f"another program appended to {self._path!r} after an interrupted run: check the file "
                f"from byte {size} on, and remove {self._path + STATE_SUFFIX!r}"
            )
        os.ftruncate(self._fd, size)

    def _read(self) -> None:
        if os.pread(self._fd, 5, 0) != b"From ":
            raise LocalError(f"{self._path!r} is not an mbox: move or remove it, or choose another name")
        self.numbers = {number for source, number in self._messages(0) if source == self._source}
        end = os.pread(self._fd, 2, max(0, self.size - 2))
        if end != b"\n\n":
            self._write(b"\n" if end.endswith(b"\n") else b"\n\n")

    def _messages(self, start: int) -> Iterator[tuple[bytes | None, int]]:
        """Yield source and number of each message after `start`: (None, 0) for another program's message."""
        with open(os.dup(self._fd), "rb") as file:
            file.seek(start)
            is_line_start = True
            while line := file.readline(_PIECE):
                # A line without LF is the incomplete last line of an interrupted run.
                if is_line_start and line.startswith(b"From ") and line.endswith(b"\n"):
                    sender = line.split(b" ", 2)[1]
                    source, _, number = sender.rpartition(b"/")
                    is_numbered = number.isdigit() and len(number) < 20
                    yield (source, int(number)) if is_numbered else (None, 0)
                is_line_start = line.endswith(b"\n")

    def add(self, number: int, moment: datetime, article: bytes) -> None:
        octets = _with_lines(article)
        sender = b"%b/%d" % (self._source, number)
        date = moment.astimezone(UTC).ctime().encode("ascii")  # as asctime(3) formats it
        message = b"From %b %b\n%b\n" % (sender, date, _QUOTED.sub(rb">\1", octets))
        with _convert_errors(self._path):
            self._write(message)
            if self.size - self._recorded_size >= _STATE_INTERVAL:
                self._record_state()
        self.numbers.add(number)

    def _write(self, octets: bytes) -> None:
        os.lseek(self._fd, self.size, os.SEEK_SET)
        try:
            write_all(self._fd, octets, self._path)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(octets)

    def close(self) -> None:
        """Sync the mbox file, remove the state file, and close the mbox file."""
        try:
            if self._fd != -1:
                with _convert_errors(self._path):
                    sync_file(self._fd)
                    self._directory.forget(self._state)
        finally:
            self._release()

    def _release(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1
        self._directory.close()

    # -- the state file

    def _record_state(self) -> None:
        """Sync the mbox file, and then record its size in the state file."""
        sync_file(self._fd)
        record = {"format": _FORMAT, "size": self.size, "inode": os.fstat(self._fd).st_ino}
        temporary = self._state + FIRST_SUFFIX
        self._directory.forget(temporary)
        fd = self._directory.create(temporary, 0o600)
        with whole_file(fd, (json.dumps(record).encode(),), partial(self._directory.forget, temporary)):
            self._directory.replace(temporary, self._state)
        self._recorded_size = self.size

    def _read_state(self) -> tuple[int, int] | None:
        try:
            with closing_descriptor(self._directory.open(self._state, os.O_RDONLY)) as fd:
                octets = os.read(fd, _PIECE)
        except FileNotFoundError:
            return None
        try:
            match json.loads(octets):
                case {"format": str(form), "size": int(size), "inode": int(inode)} if form == _FORMAT:
                    return size, inode
        except (ValueError, RecursionError):
            pass
        raise self._directory.make_foreign_error(self._state)


class Maildir:
    """A directory with one file per message, in D. J. Bernstein's Maildir format."""

    def __init__(self, path: str, source: str) -> None:
        self.numbers: set[int] = set()
        self.size = 0
        self._path = path
        self._ending = "_" + re.sub(r"[^0-9A-Za-z.+_-]", ",", source)
        self._folders = {
            name: DirectoryHandle(os.path.join(path, name), make=True) for name in ("tmp", "new", "cur")
        }

    def open(self) -> None:
        check_name(self._path)
        with _convert_errors(self._path):
            try:
                for folder in self._folders.values():
                    folder.hold()
                for name in ("new", "cur"):
                    self._read(name)
            except BaseException:
                self.close()
                raise

    def _read(self, folder: str) -> None:
        for name in os.listdir(os.path.join(self._path, folder)):
            number = name.partition(":")[0].removesuffix(self._ending).partition(".")[2]
            if name.partition(":")[0].endswith(self._ending) and number.isdigit() and number.isascii():
                self.numbers.add(int(number))
                status = self._folders[folder].status_of(name)
                self.size += 0 if status is None else status.st_size

    def add(self, number: int, moment: datetime, article: bytes) -> None:
        octets = _with_lines(article)
        seconds = max(0, int(moment.timestamp()))
        name = f"{seconds}.{number}{self._ending}"
        temporary, new = self._folders["tmp"], self._folders["new"]
        with _convert_errors(os.path.join(self._path, "new", name)):
            temporary.forget(name)
            fd = temporary.create(name)
            try:
                with open(fd, "wb", closefd=False) as file:
                    file.write(octets)
                os.utime(fd, (seconds, seconds))
                sync_file(fd)
            except BaseException:
                temporary.forget(name)
                raise
            finally:
                os.close(fd)
            try:
                os.link(name, name, src_dir_fd=temporary.fd, dst_dir_fd=new.fd, follow_symlinks=False)
            except OSError as error:
                if error.errno not in NO_LINKS:  # link(2) on Linux reports EEXIST first, so the name is free
                    raise
                os.rename(name, name, src_dir_fd=temporary.fd, dst_dir_fd=new.fd)
            else:
                temporary.forget(name)
        self.numbers.add(number)
        self.size += len(octets)

    def close(self) -> None:
        for folder in self._folders.values():
            folder.close()


def _with_lines(article: bytes) -> bytes:
    octets = article.replace(b"\r\n", b"\n")
    return octets if octets.endswith(b"\n") else octets + b"\n"


@contextmanager
def _convert_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LocalError(
                f"{path!r} is a symbolic link, which is not followed: choose another name"
            ) from error
        raise writing_fault(error, path) from error
