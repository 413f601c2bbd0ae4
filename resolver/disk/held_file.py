"""A small file that says something as long as the process lives that holds it: where a server of the person's
own is. Its lock is the system's, so one that was left behind by a process that was killed is taken over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from protocols.errors import LocalError, NotConfigured
from resolver.disk.lock import lock
from resolver.disk.own_file import check_own


@contextmanager
def held(path: str, what: str, octets: bytes) -> Iterator[bool]:
    """Is it ours, with these octets, until the end of the block? Another process may have it: then it is as
    it was. It is for its owner alone, and so is its directory, if that has to be made.

    Raises `NotConfigured` for what stands there and may not be trusted, `LocalError` where it cannot be
    written.
    """
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        fd = _locked(path, what)
    except OSError as error:
        raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error
    if fd is None:
        yield False
        return
    try:
        _write(path, what, fd, octets)
        yield True
    finally:
        if _is_at(path, fd):
            with suppress(OSError):
                os.unlink(path)
        os.close(fd)


def _locked(path: str, what: str) -> int | None:
    """The file, made if need be; what is at the name once the lock is ours."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        ours = False
        try:
            check_own(path, what, os.fstat(fd), secret=True)
            if os.fstat(fd).st_uid != os.geteuid():
                raise NotConfigured(f"{path}: this file is another user's: a {what} is ours")
            if not lock(fd):
                return None
            ours = _is_at(path, fd)  # who had it may have taken it away meanwhile
        finally:
            if not ours:
                os.close(fd)
        if ours:
            return fd


def _write(path: str, what: str, fd: int, octets: bytes) -> None:
    try:
        os.ftruncate(fd, 0)
        with open(fd, "wb", closefd=False) as file:
            file.write(octets)
    except OSError as error:
        raise LocalError(f"cannot write the {what} {path}: {error.strerror}") from error


def _is_at(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except OSError:
        return False
