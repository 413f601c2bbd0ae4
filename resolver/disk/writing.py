"""Octets into a file of ours, how far that has come, and the time that the peer gave it."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime

from protocols.contract import Sink
from resolver.disk.faults import writing_fault


def position_of(sink: Sink) -> int | None:
    """Octets in a file so far, those moved in bulk included; None for what has no position."""
    try:
        return os.lseek(sink.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None


def write_all(fd: int, octets: bytes | bytearray | memoryview, path: str) -> None:
    """Raises `LocalError`, which names the path."""
    left = memoryview(octets)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError as error:
        raise writing_fault(error, path) from error


def set_time(fd: int, modified: datetime | None) -> None:
    """None leaves it as it is; so does one that the file system cannot hold."""
    if modified is not None:
        with suppress(OSError, OverflowError, ValueError):
            moment = modified.timestamp()
            os.utime(fd, (moment, moment))
