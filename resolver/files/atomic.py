"""Small files that are written whole, and files that a process reads, locks or holds by a name."""

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
    """Write a new file whole, and give its status; the caller then gives it its final name.

    The caller created `fd` under a first name, which `remove` takes away if anything fails here or in the
    block. With `sync` the octets are on the disk before the block begins.
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
    """Put a file in place of whatever has the name, in one step, with the permissions `mode` less the user's
    mask. Raises `OSError`; then nothing is left of it, and what was there stands."""
    new = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with whole_file(fd, lines, partial(os.unlink, new), sync=sync):
        os.replace(new, path)


def write_whole(path: str, octets: bytes, mode: int | None = 0o666, *, follow: bool = True) -> None:
    """Write a file of ours, as `replace` does. Raises `LocalError`.

    With `follow` a link keeps leading to the file: it is the user's own name for it. A `mode` of None keeps
    the permissions of a file that is there, and makes a new one, and its directory, for a desktop to read.
    """
    path = os.path.realpath(path) if follow else path
    try:
        if mode is None:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            mode = os.stat(path).st_mode & 0o777 if os.path.isfile(path) else 0o644
        replace(path, (octets,), mode)
    except OSError as error:
        raise writing_fault(error, path) from error


# Private files: files that a person keeps for this program and that would do harm in other hands: the
# configuration, which may loosen the policy; a netrc file and cookies, which are secrets.
#
# They are regular files, ours or the system's, which nobody else may write to; a secret one nobody else may
# read either. What is read is what was looked at: one descriptor, whatever happens to the name meanwhile.

#: What is raised where there is none.
MISSING = (FileNotFoundError, NotADirectoryError)


class OwnFile(NamedTuple):
    """One that may be trusted. `private`: nobody else may read it."""

    fd: int
    octets: bytes
    private: bool


@contextmanager
def open_own(path: str, what: str, most: int, *, secret: bool) -> Iterator[OwnFile]:
    """A file, open for reading, and all its octets, at most `most`; `what` it is, for messages.

    Raises one of `MISSING` where there is none, and `NotConfigured`, which says what to do about it.
    """
    try:
        # A pipe would be waited for at once, and is refused below.
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
    """Is this a file that may be trusted? Raises `NotConfigured`."""
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        raise NotConfigured(f"{path}: a {what} is a regular file")
    if found.st_uid not in (os.geteuid(), 0):
        raise NotConfigured(f"{path}: this file is another user's: a {what} is ours")
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
        raise NotConfigured(f"{path}: a {what} has at most {most} octets")
    return octets


def make_folder_of(path: str, what: str) -> None:
    """The directory of a file, for its owner alone, where there is none. Raises `LocalError`."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    except OSError as error:
        raise LocalError(f"cannot make a directory for the {what} {path}: {error.strerror}") from error


def write_passing(folder: str, suffix: str, what: str, octets: bytes, lasts: float) -> str:
    """Write a new file for a program that its owner is about to start, and return its path.

    Only the owner may read the file. Files of an earlier call that are more than `lasts` seconds older are
    removed. Raises `LocalError` where it cannot be written.
    """
    path = os.path.join(folder, f"{os.urandom(8).hex()}{suffix}")
    make_folder_of(path, what)
    try:
        replace(path, (octets,), 0o600)
        oldest = os.stat(path).st_mtime - lasts
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process removes the same files
                    if entry.name.endswith(suffix) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry)
    except OSError as error:
        raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error
    return path


def update_own(
    path: str, what: str, most: int, change: Callable[[bytes], bytes], *, make_folder: bool = False
) -> None:
    """Put what `change` makes of a secret file in its place, in one step; it is made where there is none, and
    with `make_folder` its directory, too. Who does the same to it meanwhile waits: that is as long as this
    takes.

    Raises `NotConfigured` for a file that may not be trusted, `LocalError` where it cannot be written; then
    it is as it was.
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
    """The file, made if need be, locked against others who do the same. None where another has it and nobody
    is to `wait`. What others put in its place meanwhile is another file, which is opened again."""
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


# The lock that keeps concurrent transfers out of each other's files.

# What a file system says that has no locks: then there are none.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})


def lock(fd: int, *, wait: bool = False) -> bool:
    """Take the lock of an open file, until it is closed; False where another has it, unless it is to `wait`.
    Raises `OSError`, also where a file system without locks could not keep two writers apart."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if wait or error.errno not in _NO_LOCKS:
            raise
    return True


# A held file: a small file that is valid as long as the process lives that holds it, such as the address of
# the user's own server. Its lock is the system's, so a file that a killed process left behind is taken over.


@contextmanager
def hold_file(path: str, what: str, octets: bytes) -> Iterator[bool]:
    """Is it ours, with these octets, until the end of the block? Another process may have it: then it is as
    it was. It is for its owner alone, and so is its directory, if that has to be made.

    Raises `NotConfigured` for what stands there and may not be trusted, `LocalError` where it cannot be
    written.
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
    """Remove the file, unless another has its name."""
    if _is_at(path, fd):
        with suppress(OSError):
            os.unlink(path)


# Plain files: small files that desktops read, which say what opens a URL.

_MOST = 4_194_304


def read(path: str) -> bytes | None:
    """None where there is none. Raises `LocalError`."""
    try:
        with open(path, "rb") as file:
            octets = file.read(_MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalError(f"cannot read {path}: {error.strerror}") from error
    if len(octets) > _MOST:
        raise LocalError(f"{path} has more than {_MOST} octets: nothing of ours is so long")
    return octets


def take_away(path: str) -> None:
    """If it is there. Raises `LocalError`."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise LocalError(f"cannot remove {path}: {error.strerror}") from error


# A report: a file that a run writes at its end. After a crash it is complete, or as it was before.


def check_place(path: str) -> None:
    """Could one be written there? Raises `LocalError`, before anything else is done. A link is gone through:
    it is the person's own name for the file."""
    path = os.path.realpath(path)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise writing_fault(error, path) from error
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise LocalError(f"cannot write {path!r}: what is there is no regular file")
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        raise LocalError(f"cannot write {path!r}: there is no directory {directory!r}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LocalError(f"cannot write {path!r}: nothing can be made in {directory!r}")


# A directory of files that are written whole, which a run over a cluster keeps.


class OutputFiles:
    """Names are paths below it, with `/`. All raise `LocalError`."""

    def __init__(self, path: str) -> None:
        self.directory = os.path.abspath(path)

    def place(self, name: str) -> str:
        """The path of that name, in a directory that is there."""
        path = os.path.join(self.directory, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise writing_fault(error, path) from error
        return path

    def read(self, name: str) -> bytes | None:
        """None where there is none."""
        path = os.path.join(self.directory, name)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LocalError(f"cannot read {path!r}: {reason(error)}") from error

    def write(self, name: str, octets: bytes) -> None:
        """It is there as a whole, or not at all; what others left of it who were killed goes, for who reads
        the directory reads that, too. Of one name there is one writer at a time."""
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
        """What is in a directory of it, if there is one."""
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
    """A directory for what is sent elsewhere, in that one if need be, which goes with all that is in it."""
    return TemporaryDirectory(prefix="resolve-", dir=directory)


def claim_file(path: str) -> None:
    """It came from elsewhere, and is nobody else's here."""
    os.chmod(path, 0o600)


def forget(path: str) -> None:
    """What has come of it is not all."""
    with suppress(FileNotFoundError):
        os.unlink(path)


# The file of a ledger: for its owner alone, and held against a second run.
#
# SQLite opens it by its name. What is held here is another descriptor of it, and stays open as long as
# SQLite has the file: closing any drops the locks that this process has on it.


class HeldByAnother(LocalError):
    """Another run is at work with it."""


class LedgerFile:
    """Raises `LocalError`. A new file is its owner's alone, and so is what SQLite keeps beside it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self._fd = -1

    def take(self, *, make: bool = True) -> None:
        """Open it, and keep others out until `close`."""
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
            raise LocalError(f"{self.path!r} is no regular file, and so no ledger: name another one")
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
            raise LocalError(f"others may write to the ledger {self.path!r}: chmod 600, or name another file")
        if not lock(self._fd):
            raise HeldByAnother(f"the ledger {self.path!r} is locked: another run is at work with it")

    def check_there(self) -> None:
        """Raises `LocalError` where its name is no more that of this file: SQLite would go on writing what
        nobody can open."""
        if not _is_at(self.path, self._fd):
            raise LocalError(f"the ledger {self.path!r} was removed or replaced during the run")

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1


def how_to_read(path: str) -> str:
    """How SQLite is to open a ledger to read it. Raises `LocalError` where there is none that can be read.

    Where that is allowed it may write: so it puts right what a run was killed over, and takes what it keeps
    beside the file away again; who may only read leaves that there, or is refused. The file is not opened
    here, for closing it would drop the locks that SQLite has on it in this process."""
    try:
        os.stat(path)
        is_readable = os.access(path, os.R_OK)
    except OSError as error:
        raise _make_unreadable_error(path, error.errno or 0) from error
    if not is_readable:
        raise _make_unreadable_error(path, errno.EACCES)
    # A directory that we may not write to takes no file beside it; then nobody else is at work there either.
    if os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        return "mode=rw" if os.access(path, os.W_OK) else "mode=ro"
    return "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"


def _make_unreadable_error(path: str, number: int) -> LocalError:
    return LocalError(f"cannot read the ledger {path!r}: {os.strerror(number).lower()}")
