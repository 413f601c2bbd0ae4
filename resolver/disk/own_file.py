"""Files that a person keeps for this program and that would do harm in other hands: the configuration, which
may loosen the policy; a netrc file and cookies, which are secrets.

They are regular files, ours or the system's, which nobody else may write to; a secret one nobody else may
read either. What is read is what was looked at: one descriptor, whatever happens to the name meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from protocols.errors import LocalError, NotConfigured
from protocols.values import NamedTuple
from resolver.disk.replacing import replace

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


def keep_own(path: str, what: str, most: int, change: Callable[[bytes], bytes]) -> None:
    """As `update_own`, of a file in a directory that may have to be made first, for its owner alone."""
    make_folder_of(path, what)
    update_own(path, what, most, change)


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
        replace(path, octets, 0o600)
        oldest = os.stat(path).st_mtime - lasts
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process removes the same files
                    if entry.name.endswith(suffix) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry)
    except OSError as error:
        raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error
    return path


def update_own(path: str, what: str, most: int, change: Callable[[bytes], bytes]) -> None:
    """Put what `change` makes of a secret file in its place, in one step; it is made where there is none. Who
    does the same to it meanwhile waits: that is as long as this takes.

    Raises `NotConfigured` for a file that may not be trusted, `LocalError` where it cannot be written; then
    it is as it was.
    """
    path = os.path.realpath(path)
    try:
        with _locked(path, what) as fd:
            replace(path, change(_read(path, what, fd, most)), 0o600)
    except OSError as error:
        raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error


@contextmanager
def _locked(path: str, what: str) -> Iterator[int]:
    """The file, held against others who update it. What they put in its place is another file."""
    import fcntl  # what is only read needs none

    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            check_own(path, what, os.fstat(fd), secret=True)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _is_at(path, fd):
                yield fd
                return
        finally:
            os.close(fd)


def _is_at(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
