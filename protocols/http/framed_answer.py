"""One answer in frames: its body, and what is true at the end. The counterpart of `answer` for HTTP/2.

Whole is what the end of the stream ends, with as many octets as were announced, if any were. The connection
may serve again when nothing came behind that, and the server has not said that it leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from protocols.body import Octets, pour
from protocols.contract import Body, Finding, Sink, Stream
from protocols.errors import Disconnected, ResolveError
from protocols.http.framed_exchange import FramedExchange
from protocols.http.head import Framing, Head
from protocols.wire import Buffer


class FramedAnswer:
    """`keep` is called once the connection is in order for another request. `verified` is complete when
    the body has ended."""

    def __init__(
        self,
        stream: Stream,
        buffer: Buffer,
        exchange: FramedExchange,
        head: Head,
        keep: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._buffer = buffer
        self._exchange = exchange
        self._keep = keep
        self.head = head
        self.verified: set[str] = set()
        self.findings: list[Finding] = []

    def body(self) -> Body:
        """The body, undecoded; to be asked for once."""
        if self.head.framing is Framing.NONE:
            self.pass_over()
            return Octets()
        return FramedBody(self._stream, self._buffer, self._exchange, self._end)

    def pass_over(self) -> None:
        """Nobody wants this body. If all of it is here already, the connection may serve again; what is
        still to come is not waited for."""
        try:
            while self._exchange.take_data(self._buffer):
                pass
        except ResolveError:
            return  # of a body that nobody wanted: the connection is closed, and that is all
        self._leave()

    def _end(self) -> None:
        self.verified.add("terminator" if self.head.length is None else "length")
        self._leave()

    def _leave(self) -> None:
        if self._exchange.reusable:
            self._keep()


class FramedBody:
    """The octets in the DATA frames of one stream. What has to be sent for more to come is sent before
    more is awaited, so that the peer never has more under way than the window that was opened to it.

    `Truncated` when the stream or the connection ends before, `Disconnected` before the first octet.
    """

    def __init__(
        self, stream: Stream, buffer: Buffer, exchange: FramedExchange, at_end: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._buffer = buffer
        self._exchange = exchange
        self._at_end = at_end
        self._finished = False

    def __aiter__(self) -> FramedBody:
        return self

    async def __anext__(self) -> bytes:
        while not (octets := self._exchange.take_data(self._buffer)):
            if self._exchange.ended:
                self._finish()
                raise StopAsyncIteration
            await self._receive()
        return octets

    async def drain(self, sink: Sink) -> int:
        return await pour(self, sink)

    async def _receive(self) -> None:
        if self._buffer.at_end:
            raise self._exchange.cut("the connection ended")
        try:
            if (line := self._exchange.unsent()) is not None:
                await self._stream.send(line)
            self._buffer.feed(await self._stream.receive())
        except Disconnected as error:
            raise self._exchange.cut("the connection was reset") from error

    def _finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._at_end()
