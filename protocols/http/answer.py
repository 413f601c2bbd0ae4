"""One answer on a connection: its head, its body as the framing says, and what is true at the end.

Whole is what ends as it was announced: after so many octets, with the last chunk, or, inside TLS, with
close_notify. Only then, and when nothing else came, may the connection serve again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from protocols.body import Octets, StreamBody, pour
from protocols.contract import Body, Finding, Sink, Stream
from protocols.errors import Disconnected, ProtocolError, Truncated
from protocols.http.exchange import Exchange
from protocols.http.head import Framing, Head
from protocols.wire import Buffer


class Answer:
    """`keep` is called once the connection is in order for another request. `verified` and `findings`
    are complete when the body has ended."""

    def __init__(
        self, stream: Stream, buffer: Buffer, exchange: Exchange, head: Head, keep: Callable[[], None]
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
        match self.head.framing:
            case Framing.NONE:
                self._leave()
                return Octets()
            case Framing.LENGTH:
                return StreamBody(self._stream, self._buffer, self.head.length, self._end_by_length)
            case Framing.CHUNKED:
                return ChunkedBody(self._stream, self._buffer, self._exchange, self._end_by_chunk)
            case Framing.CLOSE:
                body = StreamBody(self._stream, self._buffer, None, lambda: self._end_by_close(body.received))
                return body

    def pass_over(self) -> None:
        """Nobody wants this body. If all of it is here already, the connection may serve again; what is
        still to come is not waited for."""
        if self.head.length is not None and len(self._buffer) >= self.head.length:
            self._buffer.take(self.head.length)
            self._leave()
        elif self.head.framing is Framing.CHUNKED and self._buffer:
            self._pass_over_chunks()
        elif self.head.framing is Framing.NONE:
            self._leave()

    def _pass_over_chunks(self) -> None:
        try:
            self._exchange.take_chunks(self._buffer)
        except ProtocolError:
            return  # of a body that nobody wanted: the connection is closed, and that is all
        if self._exchange.ended:
            self._leave()

    async def _end_by_length(self) -> None:
        self.verified.add("length")
        self._leave()

    async def _end_by_chunk(self) -> None:
        self.verified.add("terminator")
        self._leave()

    async def _end_by_close(self, received: int) -> None:
        if self._stream.close_notify_seen:
            self.verified.add("close-notify")
        elif not self._stream.secured:
            self._warn("http:no-length", "nothing but the end of the connection says that this is all")
        elif received == 0:
            raise Disconnected("TLS was cut off before the first octet of the body")
        else:
            raise Truncated(f"TLS was cut off after {received} octets of the body", received=received)

    def _leave(self) -> None:
        if self._buffer:
            self._warn("http:surplus", f"{len(self._buffer)} octets came behind the end of the answer")
        elif self._exchange.reusable:
            self._keep()

    def _warn(self, rule: str, detail: str) -> None:
        self.findings.append(Finding(rule, "warn", detail))


class ChunkedBody:
    """A body in chunks; the exchange takes it out of them. It ends with the last chunk and its trailer.

    `Truncated` when the connection ends before, `Disconnected` before the first octet.
    """

    def __init__(
        self, stream: Stream, buffer: Buffer, exchange: Exchange, at_end: Callable[[], Awaitable[None]]
    ) -> None:
        self._stream = stream
        self._buffer = buffer
        self._exchange = exchange
        self._at_end = at_end
        self._finished = False
        self.received = 0

    def __aiter__(self) -> ChunkedBody:
        return self

    async def __anext__(self) -> bytes:
        while not self._exchange.ended:
            if not self._buffer:
                self._buffer.feed(await self._receive())
            if octets := self._exchange.take_chunks(self._buffer):
                self.received += len(octets)
                return octets
        await self._finish()
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        return await pour(self, sink)

    async def _receive(self) -> bytes:
        try:
            octets = await self._stream.receive()
        except Disconnected as error:
            if self.received == 0:
                raise
            raise self._cut("was reset") from error
        if not octets and self.received == 0:
            raise Disconnected("the connection ended before the first octet of the body")
        if not octets:
            raise self._cut("ended")
        return octets

    def _cut(self, how: str) -> Truncated:
        message = f"the connection {how} after {self.received} octets, before the last chunk"
        return Truncated(message, received=self.received)

    async def _finish(self) -> None:
        if not self._finished:
            self._finished = True
            await self._at_end()
