"""Atomic writes, private files, file locks, reports, and the files of ledgers."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from protocols.errors import LocalError, NotConfigured
from resolver.files.faults import closing_descriptor, convert_faults, reason, writing_fault

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


#: `errno` codes of a file system that cannot sync a file. For fsync(2), POSIX lists EINVAL; some FUSE and
#: network file systems return another code.
_NO_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})


def sync_file(fd: int, *, data_only: bool = False) -> None:
    """Sync an open file to the disk, if the file system supports this.

    Args:
        fd: The descriptor of the file.
        data_only: Whether metadata that a later read does not need, such as the times, stays unsynced.

    Raises:
        OSError: The data could not be written, for example because the disk is full.
    """
    try:
        (getattr(os, "fdatasync", os.fsync) if data_only else os.fsync)(fd)  # macOS has no fdatasync(2)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def write_all(fd: int, octets: bytes | bytearray | memoryview, path: str) -> None:
    """Write all bytes. Raises `LocalError` with the path."""
    remaining = memoryview(octets)
    try:
        while remaining:
            remaining = remaining[os.write(fd, remaining) :]
    except OSError as error:
        raise writing_fault(error, path) from error


@contextmanager
def whole_file(
    fd: int, lines: Iterable[bytes], remove: Callable[[], None], *, sync: bool = True
) -> Iterator[os.stat_result]:
    """Write a new file and yield its `stat` result.

    The caller then renames the file to its final name.

    Args:
        fd: The descriptor of a file that the caller created under a temporary name.
        lines: The content of the file.
        remove: A callback that removes the temporary file if the write or the `with` block fails.
        sync: Whether the data is synced to the disk before the `with` block begins.
    """
    try:
        with open(fd, "wb") as file:
            file.writelines(lines)
            file.flush()
            if sync:
                sync_file(fd)
            status = os.fstat(fd)
        yield status
    except BaseException:
        with suppress(OSError):
            remove()
        raise


#: The pattern of the end of a temporary name.
TEMPORARY = r"\.[0-9a-f]{16}"


def replace(path: str, lines: Iterable[bytes], mode: int, *, stem: str | None = None) -> None:
    """Replace or create a file atomically; an error leaves an existing file unchanged.

    The bytes are synced to the disk before the file is renamed.

    Args:
        path: The name of the file.
        lines: The content of the file.
        mode: The permissions, from which the umask is subtracted.
        stem: The beginning of the temporary name, by default `path`.

    Raises:
        OSError: The file cannot be written. The temporary file is removed.
    """
    new = f"{stem or path}.{os.urandom(8).hex()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with whole_file(fd, lines, partial(os.unlink, new)):
        os.replace(new, path)


def write_whole(path: str, octets: bytes, mode: int | None = 0o666, *, follow: bool = True) -> None:
    """Write a file atomically, as `replace` does.

    Args:
        path: The name of the file.
        octets: The content of the file.
        mode: The permissions, from which the umask is subtracted. If None, an existing file keeps its
            permissions, and a new file gets the permissions 0644 and, if necessary, a new directory.
        follow: Whether to replace the target of a symbolic link instead of the link. A link is followed if
            the user chose the path.

    Raises:
        LocalError: The file cannot be written.
    """
    path = os.path.realpath(path) if follow else path
    with convert_faults(path):
        if mode is None:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            mode = os.stat(path).st_mode & 0o777 if os.path.isfile(path) else 0o644
        replace(path, (octets,), mode)


# Private files of the user: the configuration, netrc and cookies. An attacker who can write to the
# configuration of another user can weaken the policy. The netrc file and the cookies are secrets.
#
# A private file must be a regular file that belongs to the user or to root. Other users must not have write
# permission. For a secret file, other users must not have read permission either. The file is checked and
# read through the same descriptor, which prevents a TOCTOU attack with a renamed file.

#: The errors for a missing file.
MISSING = (FileNotFoundError, NotADirectoryError)


class OwnFile(NamedTuple):
    """The content of a private file; `private` is true if no other user may read the file."""

    fd: int
    octets: bytes
    private: bool


@contextmanager
def open_own(path: str, kind: str, max_size: int, *, secret: bool) -> Iterator[OwnFile]:
    """Open, check and read a private file.

    Args:
        path: The name of the file.
        kind: The kind of file, for error messages.
        max_size: The maximum size in bytes.
        secret: Whether read permission for other users is an error.

    Raises:
        FileNotFoundError, NotADirectoryError: The file is missing (`MISSING`).
        NotConfigured: The file is not private, too large or not readable; the message says how to fix it.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe waits for a writer. `check_own` rejects the pipe later.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except MISSING:
        raise
    except OSError as error:
        raise NotConfigured(f"cannot read the {kind} {path}: {error.strerror}") from error
    with closing_descriptor(fd):
        status = os.fstat(fd)
        check_own(path, kind, status, secret=secret)
        octets = _read(path, kind, fd, max_size)
        yield OwnFile(fd, octets, status.st_mode & 0o077 == 0)


def check_own(path: str, kind: str, status: os.stat_result, *, secret: bool) -> None:
    """Raise `NotConfigured` if the file is not private."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise NotConfigured(f"{path}: the {kind} must be a regular file")
    if status.st_uid not in (os.geteuid(), 0):
        raise NotConfigured(
            f"{path}: this file is another user's: the {kind} must belong to this user or root"
        )
    if secret and mode & 0o077:
        raise NotConfigured(f"others can read {path} (mode {mode:04o}): chmod 600 {path}")
    if mode & 0o022:
        raise NotConfigured(f"{path}: others may write to this file (mode {mode:04o}): chmod go-w {path}")


def _read(path: str, kind: str, fd: int, max_size: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        try:
            octets = file.read(max_size + 1)
        except OSError as error:
            raise NotConfigured(f"cannot read the {kind} {path}: {error.strerror}") from error
    if len(octets) > max_size:
        raise NotConfigured(f"{path}: the {kind} is too large: expected at most {max_size} bytes")
    return octets


def make_parent_folder(path: str, kind: str) -> None:
    """Create the missing directory of a file, with access only for the owner. Raises `LocalError`."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    except OSError as error:
        raise LocalError(f"cannot create the directory of the {kind} {path}: {error.strerror}") from error


def write_temporary(folder: str, suffix: str, kind: str, octets: bytes, lifetime: float) -> str:
    """Write a temporary file for another program and return the path of the file.

    Only the owner may read the file. The function also removes old files of earlier calls: those that are
    more than `lifetime` seconds older than the new file.

    Raises:
        LocalError: The file cannot be written.
    """
    path = os.path.join(folder, f"{os.urandom(8).hex()}{suffix}")
    make_parent_folder(path, kind)
    try:
        replace(path, (octets,), 0o600)
        oldest = os.stat(path).st_mtime - lifetime
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # Another process may have removed the file.
                    if entry.name.endswith(suffix) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry)
    except OSError as error:
        raise LocalError(f"cannot write the {kind} {path}: {error.strerror}") from error
    return path


def update_own(
    path: str, kind: str, max_size: int, change: Callable[[bytes], bytes], *, make_folder: bool = False
) -> None:
    """Replace the content of a secret file by `change(content)` atomically.

    A missing file is created. A file lock makes concurrent updates wait for each other.

    Args:
        path: The name of the file.
        kind: The kind of file, for error messages.
        max_size: The maximum size in bytes.
        change: A function that returns the new content for the old content.
        make_folder: Whether a missing directory is created.

    Raises:
        NotConfigured: The file is not private, or too large.
        LocalError: The file cannot be written. The old file stays unchanged.
    """
    if make_folder:
        make_parent_folder(path, kind)
    path = os.path.realpath(path)
    try:
        with _lock_file(path, kind, wait=True) as fd:
            assert fd is not None
            replace(path, (change(_read(path, kind, fd, max_size)),), 0o600)
    except OSError as error:
        raise LocalError(f"cannot write the {kind} {path}: {error.strerror}") from error


def _open_private(path: str, check: Callable[[os.stat_result], None], *, make: bool = True) -> int:
    """Open a private file for reading and writing. With `make`, create a missing file.

    Args:
        path: The name of the file.
        check: A function that raises `LocalError` if the file with the `stat` result is not private.
        make: Whether a missing file is created.

    Raises:
        OSError: The file cannot be opened.
        LocalError: The file is not private. A new file is then removed, because its file system, such as FAT,
            does not store permissions.
    """
    flags, is_new = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, make
    try:
        fd = os.open(path, flags | (os.O_CREAT | os.O_EXCL if make else 0), 0o600)
    except FileExistsError:
        fd, is_new = os.open(path, flags | os.O_CREAT, 0o600), False
    try:
        check(os.fstat(fd))
    except LocalError as error:
        if is_new:
            _remove_own(path, fd)
            message = f"the file system of {path!r} does not store permissions: name a file on another one"
            error = type(error)(message)
        os.close(fd)
        raise error from None
    return fd


@contextmanager
def _lock_file(path: str, kind: str, *, wait: bool = False) -> Iterator[int | None]:
    """Lock the file and yield its descriptor; a missing file is created.

    If another process holds the lock and `wait` is False, the function yields None. If another process
    replaces the file before the lock is acquired, the new file is opened and locked.
    """
    while True:
        with closing_descriptor(_open_private(path, partial(check_own, path, kind, secret=True))) as fd:
            if not lock(fd, wait=wait):
                yield None
                return
            if _is_at(path, fd):
                yield fd
                return


def _is_at(path: str, fd: int) -> bool:
    """Return whether `path` is still the name of the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:
        return False


# File locks. The locks prevent concurrent transfers from writing to the same file.

# `errno` codes of a file system without locks. On such a file system, `lock` without `wait` returns True.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})


def lock(fd: int, *, wait: bool = False) -> bool:
    """Lock an open file until the file is closed, and return whether the lock was acquired.

    Args:
        fd: The descriptor of the file.
        wait: Whether to wait until another process releases the lock, instead of returning False.

    Raises:
        OSError: The lock failed. With `wait`, a file system without locks also raises `OSError`, because
            concurrent writers could overwrite each other.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if wait or error.errno not in _NO_LOCKS:
            raise
    return True


# A lock file contains data about a running process, such as the address of the user's own server. The data is
# valid while the process runs. If the process is killed, the system releases the lock, and another process
# can overwrite the lock file.


@contextmanager
def create_lock_file(path: str, kind: str, octets: bytes) -> Iterator[bool]:
    """Create a lock file with the content `octets` for the duration of the `with` block.

    The function yields True if the lock was acquired. If another process has locked the file, the function
    yields False and the file stays unchanged. Only the owner has access to the lock file. A missing directory
    is created with access only for the owner.

    Raises:
        NotConfigured: The existing file is not private.
        LocalError: The file cannot be written.
    """
    make_parent_folder(path, kind)
    with ExitStack() as stack:
        try:
            fd = stack.enter_context(_lock_file(path, kind))
            if fd is not None:
                stack.callback(_remove_own, path, fd)
                os.ftruncate(fd, 0)
                with open(fd, "wb", closefd=False) as file:
                    file.write(octets)
        except OSError as error:
            raise LocalError(f"cannot write the {kind} {path}: {error.strerror}") from error
        yield fd is not None


def _remove_own(path: str, fd: int) -> None:
    """Remove the open file if `path` is still the name of the file."""
    if _is_at(path, fd):
        with suppress(OSError):
            os.unlink(path)


# Desktop files register the programs that open a URL.

_MAX_SIZE = 4_194_304


def read(path: str) -> bytes | None:
    """Return the content of a file of at most 4 MiB.

    The result is `None` if the file is missing.

    Raises:
        LocalError: The file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            octets = file.read(_MAX_SIZE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalError(f"cannot read {path}: {error.strerror}") from error
    if len(octets) > _MAX_SIZE:
        raise LocalError(f"{path} is too large: expected at most {_MAX_SIZE} bytes")
    return octets


def drop_file(path: str) -> None:
    """Remove the file if it exists. Raises `LocalError`."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise LocalError(f"cannot remove {path}: {error.strerror}") from error


# A report is a file that a run writes at its end. The file is written atomically: after a crash of the
# machine, the old report or the complete new report exists.


def check_writable(path: str) -> None:
    """Check before the run whether a report can be written to `path`.

    A symbolic link is followed, because the user chose the path.

    Raises:
        LocalError: The path is not a regular file, or its directory is missing or not writable.
    """
    path = os.path.realpath(path)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    except OSError as error:
        raise writing_fault(error, path) from error
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise LocalError(f"cannot write {path!r}: not a regular file")
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        raise LocalError(f"cannot write {path!r}: the directory {directory!r} does not exist")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LocalError(f"cannot write {path!r}: the directory {directory!r} is not writable")


# The output directory of a run on a cluster. Each file in the directory is written atomically.


class OutputFiles:
    """A directory of output files. Names are relative paths with `/`. All methods raise `LocalError`."""

    def __init__(self, path: str) -> None:
        self.directory = os.path.abspath(path)

    def place(self, name: str) -> str:
        """Return the path of a file, and create the directory of the file."""
        path = os.path.join(self.directory, name)
        with convert_faults(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def read(self, name: str) -> bytes | None:
        """Return the content of the file, or None if the file is missing."""
        path = os.path.join(self.directory, name)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LocalError(f"cannot read {path!r}: {reason(error)}") from error

    def write(self, name: str, octets: bytes) -> None:
        """Write the file atomically, and remove the temporary files of killed writers.

        The temporary files are removed because a reader of the directory would otherwise read them. Only one
        process at a time may write a file of the same name.
        """
        path = self.place(name)
        write_whole(path, octets, follow=False)
        with convert_faults(path):
            directory, base = os.path.split(path)
            for entry in os.listdir(directory):
                if entry.startswith(f"{base}."):
                    os.unlink(os.path.join(directory, entry))

    def names(self, directory: str) -> list[str]:
        """Return the sorted names in a subdirectory, or none if it is missing."""
        path = os.path.join(self.directory, directory)
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LocalError(f"cannot read {path!r}: {reason(error)}") from error

    def has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.directory, name))


def make_scratch_directory(directory: str | None = None) -> TemporaryDirectory[str]:
    """Create a temporary directory in `directory`, or by default in the system's directory."""
    from tempfile import TemporaryDirectory  # lazy import: only `bulk` needs it, and it imports `random`

    return TemporaryDirectory(prefix="resolve-", dir=directory)


def claim_file(path: str) -> None:
    """Restrict access to a file that came from another machine to its owner."""
    os.chmod(path, 0o600)


def forget(path: str) -> None:
    """Remove an incomplete file if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


# The ledger file. Only the owner has access to the ledger. A lock prevents a second run from using the ledger
# at the same time. SQLite opens the ledger by name, and this module locks the ledger through a separate
# descriptor. If a process closes any descriptor of a file, the system releases all POSIX locks of the process
# on the file. So the separate descriptor stays open while SQLite uses the ledger.


class LedgerFileLocked(LocalError):
    """The ledger is locked by another run."""


class LedgerFile:
    """The locked file of a ledger. Methods raise `LocalError`.

    Only the owner can access a new ledger and the files -wal and -shm that SQLite creates next to it.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self._fd = -1

    def acquire(self, *, make: bool = True) -> None:
        """Open the ledger and lock it until `close` is called."""
        try:
            self._fd = _open_private(self.path, self._check, make=make)
            if not lock(self._fd):
                raise LedgerFileLocked(f"the ledger {self.path!r} is locked by another run")
        except OSError as error:
            self.close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self.close()
            raise

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise LocalError(f"{self.path!r} is not a regular file, so not a ledger: name another file")
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022:
            raise LocalError(f"others may write to the ledger {self.path!r}: chmod 600, or name another file")

    def check_path(self) -> None:
        """Raise `LocalError` if the ledger was removed or replaced by another file.

        SQLite would otherwise continue to write to a deleted file.
        """
        if not _is_at(self.path, self._fd):
            raise LocalError(f"the ledger {self.path!r} was removed or replaced during the run")

    def close(self) -> None:
        if self._fd != -1:
            with suppress(OSError):  # Nothing was written through this descriptor.
                os.close(self._fd)
        self._fd = -1


def reading_parameters(path: str) -> str:
    """Return the URI parameters with which SQLite opens a ledger for reading.

    If the user has write permission, SQLite opens the ledger in read-write mode. SQLite then recovers the
    ledger of a killed run, and removes the -wal and -shm files at the end. Without write permission, the -wal
    and -shm files stay, or SQLite reports an error. This function does not open the ledger, because the later
    close would release SQLite's locks on the ledger.

    Raises:
        LocalError: The ledger is missing, not readable, or not a regular file.
    """
    try:
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
        is_readable = os.access(path, os.R_OK)
    except OSError as error:
        raise _make_unreadable_error(path, error.errno or 0) from error
    if not is_readable:
        raise _make_unreadable_error(path, errno.EACCES)
    if not is_regular:
        raise LocalError(f"{path!r} is not a regular file, so not a ledger: name another file")
    # In a read-only directory, SQLite cannot create the -wal and -shm files, so no process writes to the
    # ledger.
    if os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        return "mode=rw" if os.access(path, os.W_OK) else "mode=ro"
    return "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"


def _make_unreadable_error(path: str, number: int) -> LocalError:
    return LocalError(f"cannot read the ledger {path!r}: {os.strerror(number).lower()}")
