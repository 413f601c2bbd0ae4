"""Files that are written in one step, and files that a process reads, locks or holds by name."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import NamedTuple

from protocols.errors import LocalError, NotConfigured
from resolver.files.faults import reason, writing_fault


@contextmanager
def whole_file(
    fd: int, lines: Iterable[bytes], remove: Callable[[], None], *, sync: bool = True
) -> Iterator[os.stat_result]:
    """Write a new file completely and yield its status; the caller then renames it to its final name.

    Args:
        fd: A descriptor that the caller created under a temporary name.
        lines: The content.
        remove: A callback that removes the temporary name if writing or the caller's block fails.
        sync: Whether the bytes are synced to the disk before the block begins.
    """
    try:
        with open(fd, "wb") as file:
            file.writelines(lines)
            file.flush()
            if sync:
                os.fsync(fd)
            status = os.fstat(fd)
        yield status
    except BaseException:
        with suppress(OSError):
            remove()
        raise


def replace(path: str, lines: Iterable[bytes], mode: int, *, sync: bool = True) -> None:
    """Replace the file of that name in one step; the existing file stays if this fails.

    Args:
        path: The name, which may be free or belong to any file.
        lines: The content.
        mode: The permissions, less the user's umask.
        sync: Whether the bytes are synced to the disk before the renaming.

    Raises:
        OSError: The file cannot be written; the temporary file is removed.
    """
    new = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with whole_file(fd, lines, partial(os.unlink, new), sync=sync):
        os.replace(new, path)


def write_whole(path: str, octets: bytes, mode: int | None = 0o666, *, follow: bool = True) -> None:
    """Write a complete file in one step, as `replace` does.

    Args:
        path: The name of the file.
        octets: The content.
        mode: The permissions, less the umask. None keeps those of an existing file, makes a new file readable
            for the desktop (0644), and creates its directory.
        follow: Whether a symbolic link stays and its target is replaced: the link is the user's own name for
            the file.

    Raises:
        LocalError: The file cannot be written.
    """
    path = os.path.realpath(path) if follow else path
    try:
        if mode is None:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            mode = os.stat(path).st_mode & 0o777 if os.path.isfile(path) else 0o644
        replace(path, (octets,), mode)
    except OSError as error:
        raise writing_fault(error, path) from error


# Private files: another user who could change the configuration could loosen the policy, and a netrc file and
# cookies are secrets.
#
# A private file must be a regular file that belongs to the user or to root, and that no other user may write
# to. No other user may read a secret file. The check and the read use the same descriptor, so renaming the
# file between them has no effect.

#: The errors for a missing file.
MISSING = (FileNotFoundError, NotADirectoryError)


class OwnFile(NamedTuple):
    """A file that passed the checks. `private` is true if no other user may read the file."""

    fd: int
    octets: bytes
    private: bool


@contextmanager
def open_own(path: str, what: str, most: int, *, secret: bool) -> Iterator[OwnFile]:
    """Open a private file for reading, check it, and read it.

    Args:
        path: The name of the file.
        what: The kind of file, for messages.
        most: The maximum size in bytes.
        secret: Whether other users must not be able to read it.

    Raises:
        FileNotFoundError, NotADirectoryError: The file is missing (`MISSING`).
        NotConfigured: The file is not private, too large or not readable; the message says how to fix it.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer; `check_own` refuses the pipe.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except MISSING:
        raise
    except OSError as error:
        raise NotConfigured(f"cannot read the {what} {path}: {error.strerror}") from error
    try:
        found = os.fstat(fd)
        check_own(path, what, found, secret=secret)
        octets = _read(path, what, fd, most)
        yield OwnFile(fd, octets, found.st_mode & 0o077 == 0)
    finally:
        os.close(fd)


def check_own(path: str, what: str, found: os.stat_result, *, secret: bool) -> None:
    """Raise `NotConfigured` unless the file is private."""
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        raise NotConfigured(f"{path}: the {what} must be a regular file")
    if found.st_uid not in (os.geteuid(), 0):
        raise NotConfigured(
            f"{path}: this file is another user's: the {what} must belong to this user or root"
        )
    if secret and mode & 0o077:
        raise NotConfigured(f"others can read {path} (mode {mode:04o}): chmod 600 {path}")
    if mode & 0o022:
        raise NotConfigured(f"{path}: others may write to this file (mode {mode:04o}): chmod go-w {path}")


def _read(path: str, what: str, fd: int, most: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        try:
            octets = file.read(most + 1)
        except OSError as error:
            raise NotConfigured(f"cannot read the {what} {path}: {error.strerror}") from error
    if len(octets) > most:
        raise NotConfigured(f"{path}: the {what} is too large: expected at most {most} bytes")
    return octets


def make_folder_of(path: str, what: str) -> None:
    """Create the directory of a file, for its owner only, if it is missing. Raises `LocalError`."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    except OSError as error:
        raise LocalError(f"cannot create the directory of the {what} {path}: {error.strerror}") from error


def write_passing(folder: str, suffix: str, what: str, octets: bytes, lasts: float) -> str:
    """Write a temporary file for a program that the user is about to start, and return its path.

    Only the owner may read the file. Files of earlier calls are removed if they are more than `lasts` seconds
    older than the new file.

    Raises:
        LocalError: The file cannot be written.
    """
    path = os.path.join(folder, f"{os.urandom(8).hex()}{suffix}")
    make_folder_of(path, what)
    try:
        replace(path, (octets,), 0o600)
        oldest = os.stat(path).st_mtime - lasts
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # Another process removes the same files.
                    if entry.name.endswith(suffix) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry)
    except OSError as error:
        raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error
    return path


def update_own(
    path: str, what: str, most: int, change: Callable[[bytes], bytes], *, make_folder: bool = False
) -> None:
    """Replace the content of a secret file by `change(content)` in one step.

    A missing file is created. A concurrent update waits until this update releases the lock.

    Args:
        path: The name of the file.
        what: The kind of file, for messages.
        most: The maximum size in bytes.
        change: Returns the new content for the old one.
        make_folder: Whether a missing directory is created.

    Raises:
        NotConfigured: The file is not private, or too large.
        LocalError: The file cannot be written; the old file stays.
    """
    if make_folder:
        make_folder_of(path, what)
    path = os.path.realpath(path)
    try:
        with _lock_file(path, what, wait=True) as fd:
            assert fd is not None
            replace(path, (change(_read(path, what, fd, most)),), 0o600)
    except OSError as error:
        raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error


@contextmanager
def _lock_file(path: str, what: str, *, wait: bool = False) -> Iterator[int | None]:
    """Yield a locked descriptor of the file, which is created if missing.

    Yields None if another process has the lock and `wait` is False. If another process replaces the file
    before the lock is taken, the new file is opened instead.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            check_own(path, what, os.fstat(fd), secret=True)
            if not lock(fd, wait=wait):
                yield None
                return
            if _is_at(path, fd):
                yield fd
                return
        finally:
            os.close(fd)


def _is_at(path: str, fd: int) -> bool:
    """Return whether the path still names the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:
        return False


# The file lock, which prevents two transfers from writing to the same file.

# The errors of a file system without locks. On such a file system a file is written without a lock, unless
# `wait` is set.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})


def lock(fd: int, *, wait: bool = False) -> bool:
    """Lock an open file until it is closed, and return whether that succeeded.

    Args:
        fd: The open file.
        wait: Whether to wait until another process releases the lock, instead of returning False.

    Raises:
        OSError: The lock failed. With `wait`, a file system without locks is such an error, because it could
            not keep two writers apart.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if wait or error.errno not in _NO_LOCKS:
            raise
    return True


# A held file is a small file that is valid as long as its process lives, such as the address of the user's
# own server. The system releases the lock when a process is killed, so another process can then take over the
# file.


@contextmanager
def hold_file(path: str, what: str, octets: bytes) -> Iterator[bool]:
    """Hold the file with this content until the end of the block, and yield whether that succeeded.

    If another process holds the file, the file stays unchanged. Only the owner can access the file. The same
    is true for the file's directory if this call creates it.

    Raises:
        NotConfigured: The existing file is not private.
        LocalError: The file cannot be written.
    """
    make_folder_of(path, what)
    with ExitStack() as holding:
        try:
            fd = holding.enter_context(_lock_file(path, what))
            if fd is not None:
                holding.callback(_remove_own, path, fd)
                os.ftruncate(fd, 0)
                with open(fd, "wb", closefd=False) as file:
                    file.write(octets)
        except OSError as error:
            raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error
        yield fd is not None


def _remove_own(path: str, fd: int) -> None:
    """Remove the file, unless another file has its name."""
    if _is_at(path, fd):
        with suppress(OSError):
            os.unlink(path)


# Plain files: small desktop files that register the programs which open a URL.

_MOST = 4_194_304


def read(path: str) -> bytes | None:
    """Return the content of a file of at most 4 MiB; None if it is missing. Raises `LocalError`."""
    try:
        with open(path, "rb") as file:
            octets = file.read(_MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalError(f"cannot read {path}: {error.strerror}") from error
    if len(octets) > _MOST:
        raise LocalError(f"{path} is too large: expected at most {_MOST} bytes")
    return octets


def take_away(path: str) -> None:
    """Remove the file, if it exists. Raises `LocalError`."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise LocalError(f"cannot remove {path}: {error.strerror}") from error


# A report is a file that a run writes at its end. If the machine crashes, the report is either complete or
# unchanged.


def check_place(path: str) -> None:
    """Check before the run whether a report can be written there.

    A symbolic link is followed, because it is the user's own name for the file.

    Raises:
        LocalError: The path is not a regular file, or its directory is missing or not writable.
    """
    path = os.path.realpath(path)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise writing_fault(error, path) from error
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise LocalError(f"cannot write {path!r}: not a regular file")
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        raise LocalError(f"cannot write {path!r}: the directory {directory!r} does not exist")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LocalError(f"cannot write {path!r}: the directory {directory!r} is not writable")


# The output directory of a run on a cluster. Each of its files is written in one step.


class OutputFiles:
    """A directory of files; names are relative paths with `/`. All methods raise `LocalError`."""

    def __init__(self, path: str) -> None:
        self.directory = os.path.abspath(path)

    def place(self, name: str) -> str:
        """Return the path of that name, and create its directory."""
        path = os.path.join(self.directory, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise writing_fault(error, path) from error
        return path

    def read(self, name: str) -> bytes | None:
        """Return the content of the file; None if it is missing."""
        path = os.path.join(self.directory, name)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LocalError(f"cannot read {path!r}: {reason(error)}") from error

    def write(self, name: str, octets: bytes) -> None:
        """Write the file in one step, and remove the temporary files of killed writers.

        These temporary files are removed because a reader of the directory would read them, too. Only one
        writer may write to a name at a time.
        """
        path = self.place(name)
        write_whole(path, octets, follow=False)
        try:
            directory, base = os.path.split(path)
            for each in os.listdir(directory):
                if each.startswith(f"{base}."):
                    os.unlink(os.path.join(directory, each))
        except OSError as error:
            raise writing_fault(error, path) from error

    def names(self, directory: str) -> list[str]:
        """Return the sorted names in a subdirectory; empty if it is missing."""
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
    """Create a temporary directory, in `directory` if given, which is removed with its content."""
    return TemporaryDirectory(prefix="resolve-", dir=directory)


def claim_file(path: str) -> None:
    """Restrict a file that was copied from another machine to its owner."""
    os.chmod(path, 0o600)


def forget(path: str) -> None:
    """Remove an incomplete file, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


# The file of a ledger: accessible to its owner only, and locked against a second run.
# SQLite opens the file by its name, and the lock is on a separate descriptor. The descriptor stays open as
# long as SQLite has the file, because closing any descriptor of a file drops all POSIX locks that this
# process has on the file.


class HeldByAnother(LocalError):
    """The ledger is locked by another run."""


class LedgerFile:
    """The locked file of a ledger. Methods raise `LocalError`.

    Only the owner can access a new file and the files that SQLite keeps next to it.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self._fd = -1

    def take(self, *, make: bool = True) -> None:
        """Open the file, and lock it until `close`."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._fd = os.open(self.path, flags | (os.O_CREAT if make else 0), 0o600)
            self._check()
        except OSError as error:
            self.close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self.close()
            raise

    def _check(self) -> None:
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            raise LocalError(f"{self.path!r} is not a regular file, so not a ledger: name another file")
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
            raise LocalError(f"others may write to the ledger {self.path!r}: chmod 600, or name another file")
        if not lock(self._fd):
            raise HeldByAnother(f"the ledger {self.path!r} is locked by another run")

    def check_there(self) -> None:
        """Raise `LocalError` if the name belongs to another file now.

        SQLite would otherwise continue to write to a file that no process can open any more.
        """
        if not _is_at(self.path, self._fd):
            raise LocalError(f"the ledger {self.path!r} was removed or replaced during the run")

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1


def how_to_read(path: str) -> str:
    """Return the URI parameters with which SQLite opens a ledger for reading.

    SQLite opens the file writable if permissions allow that. Then SQLite recovers from a killed run, and
    removes its own -wal and -shm files afterwards. If the user has only read permission, these files stay, or
    SQLite reports an error. This function does not open the file, because closing the file would drop the
    locks that SQLite has on it in this process.

    Raises:
        LocalError: The ledger is missing or not readable.
    """
    try:
        os.stat(path)
        is_readable = os.access(path, os.R_OK)
    except OSError as error:
        raise _make_unreadable_error(path, error.errno or 0) from error
    if not is_readable:
        raise _make_unreadable_error(path, errno.EACCES)
    # SQLite cannot create files in a directory without write permission, so no other process writes there.
    if os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        return "mode=rw" if os.access(path, os.W_OK) else "mode=ro"
    return "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"


def _make_unreadable_error(path: str, number: int) -> LocalError:
    return LocalError(f"cannot read the ledger {path!r}: {os.strerror(number).lower()}")
