"""Into descriptors that a person gave us: what waits for a reader, and what never does."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from protocols.errors import LocalError


class OutputFault(LocalError):
    """Standard output takes no more, so nothing that follows could be shown either."""


@contextmanager
def output_faults() -> Iterator[None]:
    """What keeps standard output from taking more: `BrokenPipeError`, or `OutputFault`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFault(f"cannot write to standard output: {error.strerror or error}") from error


def write_all(fd: int, octets: bytes | memoryview) -> None:
    """Wait for as long as it takes; also where somebody made it a descriptor that does not wait."""
    left = memoryview(octets)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            _wait(fd)


def _wait(fd: int) -> None:
    import select  # hardly anybody makes it so

    waiting = select.poll()
    waiting.register(fd, select.POLLOUT)
    waiting.poll()


def write_some(fd: int, octets: memoryview) -> memoryview:
    """To a descriptor that `open_ready` opened, as far as it takes them now: what is left."""
    with suppress(BlockingIOError):
        while octets:
            octets = octets[os.write(fd, octets) :]
    return octets


def open_ready(fd: int) -> int | None:
    """What this descriptor writes to, by one of our own that makes nobody wait; None where there is none.

    A regular file and /dev/null have no reader. A pipe is opened anew: set on the descriptor that we were
    given, `O_NONBLOCK` would hold for everybody who has it.
    """
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) or found.st_rdev == os.stat(os.devnull).st_rdev:
        return os.dup(fd)
    if not stat.S_ISFIFO(found.st_mode):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # another user's, or without a reader, or no such names here
        return None
