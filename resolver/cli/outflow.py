"""Octets on their way to a reader who may be slow: no signal and no limit waits for him.

What there is room for goes out at once. A worker thread waits with what a pipe had no room for twice, and
with all for whatever else there is: terminals, sockets, pipes of another user.
"""

from __future__ import annotations

import os

import trio

from resolver.cli.writing import open_ready, write_all, write_some


class Outflow:
    """Into a descriptor, which stays its owner's. Whatever goes wrong is an `OSError`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._ready = open_ready(fd)

    def close(self) -> None:
        if self._ready is not None:
            os.close(self._ready)

    async def put(self, octets: bytes) -> None:
        """After a cancel some of them may be out, and a thread may still wait to write others."""
        left = memoryview(octets)
        if self._ready is not None:
            left = write_some(self._ready, left)
            if left:
                await trio.lowlevel.wait_writable(self._ready)
                left = write_some(self._ready, left)
        if left:  # who takes few octets at a time would wake us for each few
            await trio.to_thread.run_sync(write_all, self._fd, left, abandon_on_cancel=True)
