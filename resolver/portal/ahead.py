"""A body, read by a task for a thread that takes it in large pieces.

Each crossing of threads costs as much as the octets that come with it, if they are few. So what comes while
the thread waits is gathered: up to a mebibyte, and no longer than nobody notices. A piece that was begun when
the thread had enough is finished, and given with the next; otherwise nothing is read that nobody waits for.
All of this happens in trio's thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterable

import trio

from resolver.portal.thread import Portal, ThreadLost

#: Octets that cross at once.
MOST = 1_048_576

#: Seconds for which octets that are here wait for more, once.
_MOMENT = 0.002


class ReadAhead:
    """`body` under a reader of its own, until `aclose`."""

    def __init__(self, body: AsyncIterable[bytes], portal: Portal) -> None:
        self._body = body
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = 0
        self._awaited = 1
        self._enough = trio.Event()
        self._resumed = trio.Event()
        self._ended = trio.Event()
        self._error: BaseException | None = None
        self._reader = portal.cast(self._read)

    async def gather(self, least: int) -> bytes:
        """What is here, once it is so many octets, or all there are; none at the end. What breaks the body
        is raised when all before it was given."""
        with self._reader.attended():
            await self._wait(max(1, least), max(least, MOST))
            if self._held < MOST and not self._ended.is_set():
                with trio.move_on_after(_MOMENT):
                    await self._wait(MOST, MOST)
            self._wanted = 0
        if not self._pieces and self._error is not None:
            raise self._error
        octets = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._held = [], 0
        return octets

    async def _wait(self, least: int, most: int) -> None:
        """Until so many octets are here; the reader goes on until there are `most`."""
        self._wanted, self._awaited = most, least
        self._resumed.set()
        if self._held < least and not self._ended.is_set():
            self._enough = trio.Event()
            await self._enough.wait()

    async def _read(self) -> None:
        try:
            async for octets in self._body:
                await self._put(octets)
        except BaseException as error:
            self._error = ThreadLost() if isinstance(error, trio.Cancelled) else error
            raise
        finally:
            self._ended.set()
            self._enough.set()

    async def _put(self, octets: bytes) -> None:
        self._pieces.append(octets)
        self._held += len(octets)
        if self._held >= self._awaited:
            self._enough.set()
        while self._held >= self._wanted:
            self._resumed = trio.Event()
            await self._resumed.wait()

    async def aclose(self) -> None:
        """The body is nobody's business any more."""
        self._reader.cancel()
        await self._ended.wait()
