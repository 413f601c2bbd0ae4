"""Reading the start of a reply before it is known what it is, and losing nothing of it.

A connection that fails meanwhile is no reason to lose what came: the failure is kept, for the body to
raise at its place.
"""

from __future__ import annotations

from protocols.contract import Stream
from protocols.errors import Disconnected, NetworkError, TimedOut
from protocols.gopher.periods import closing_period
from protocols.gopher.refusals import RefusalWatch
from protocols.wire import Buffer


class LookAhead:
    """Octets of `stream` gathered in `buffer`. `failure` is what stopped the gathering, None while
    nothing has."""

    def __init__(self, stream: Stream, buffer: Buffer) -> None:
        self._stream = stream
        self.buffer = buffer
        self.failure: NetworkError | None = None

    @property
    def is_whole(self) -> bool:
        """Is the buffer all of the reply, as far as can be known: to the end of the connection, or to
        a final period behind which the connection was reset?"""
        if isinstance(self.failure, Disconnected):
            return closing_period(self.buffer.peek(len(self.buffer))) != b""
        return self.buffer.at_end

    async def at_least(self, count: int) -> bytes:
        """The first `count` octets, fewer only if no more come; they stay in the buffer."""
        while len(self.buffer) < count and await self._more():
            pass
        return self.buffer.peek(count)

    async def watch(self, watch: RefusalWatch) -> None:
        """Show the reply to `watch` until it has made up its mind, or no more comes."""
        octets = self.buffer.peek(len(self.buffer))
        watch.feed(octets)
        while watch.is_refusal is None and (octets := await self._more()):
            watch.feed(octets)
        if self.is_whole:
            watch.finish()

    async def _more(self) -> bytes:
        if self.buffer.at_end or self.failure is not None:
            return b""
        try:
            octets = await self._stream.receive()
        except (Disconnected, TimedOut) as error:
            self.failure = error
            return b""
        self.buffer.feed(octets)
        return octets
