"""The octets of an answer, for a thread that waits."""

from __future__ import annotations

from collections.abc import AsyncIterable
from functools import partial

from resolver.portal.ahead import ReadAhead
from resolver.portal.opened import OpenResource


class PortalBody:
    """The octets of an answer: iterate it for pieces as they come, of up to 1 MiB, or `read`; once."""

    def __init__(self, body: AsyncIterable[bytes], held: OpenResource) -> None:
        self._body = body
        self._opened = held
        self._ahead: ReadAhead | None = None
        self._octets = b""
        self._at = 0

    def __iter__(self) -> PortalBody:
        return self

    def __next__(self) -> bytes:
        octets = self.read_some()
        if not octets:
            raise StopIteration
        return octets

    def read(self, count: int = -1) -> bytes:
        """The next `count` octets, fewer only at the end; without a count all that are left."""
        while count < 0 or self._held < count:
            if not self._more(count - self._held if count >= 0 else 1 << 62):
                break
        return self._take(self._held if count < 0 else count)

    def read_some(self, most: int | None = None) -> bytes:
        """What is here, once there is anything, and at most so much; none at the end."""
        if not self._held:
            self._more(1)
        return self._take(self._held if most is None else most)

    @property
    def _held(self) -> int:
        return len(self._octets) - self._at

    def _take(self, count: int) -> bytes:
        whole = self._at == 0 and count >= len(self._octets)
        octets = self._octets if whole else self._octets[self._at : self._at + count]
        self._at += len(octets)
        if not self._held:
            self._octets, self._at = b"", 0
        return octets

    def _more(self, least: int) -> bool:
        """Add at least so many to those that are held, unless they come to an end; did any come?"""
        self._opened.check_open()
        return self._opened.portal.run(partial(self._gather, least))

    async def _gather(self, least: int) -> bool:
        """They are held also if the call ends otherwise: with what a callback raises, or Ctrl-C."""
        if self._ahead is None:
            self._ahead = ReadAhead(self._body, self._opened.portal)
            self._opened.before_leaving(self._ahead.aclose)
        octets = await self._ahead.gather(least)
        self._octets, self._at = self._octets[self._at :] + octets if self._held else octets, 0
        return bool(octets)
