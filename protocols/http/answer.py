"""One answer: its head, its body as the framing says, and what is true at the end.

Whole is what ends as it was announced: after so many octets, with the last chunk or the end of the stream,
or, inside TLS, with close_notify. Only then, and when nothing else came, may the connection serve again.
"""

from __future__ import annotations

from typing import cast

from protocols.errors import Disconnected, Truncated
from protocols.http.codings import Decoding
from protocols.http.exchange import Http1Exchange
from protocols.http.framed_exchange import Http2Exchange
from protocols.http.head import BodyFraming, ResponseHead
from protocols.location import Finding
from protocols.reply import Reply
from protocols.step import (
    CopiedBody,
    CopyBody,
    Dialogue,
    EmitBody,
    ParseBuffered,
    ReleaseToPool,
    Send,
    copy_body,
    receive,
)
from protocols.values import NamedTuple
from protocols.wire import Reader, count_waiting

_BODY = "the body, as long as the head says"


class HttpAnswer(NamedTuple):
    """The head has come, what follows is the body; `exchange` has what is needed to read it."""

    exchange: Http1Exchange | Http2Exchange
    head: ResponseHead
    secured: bool

    def pass_over(self, findings: list[Finding]) -> Dialogue[None]:
        """Nobody wants this body. If all of it is here already, the connection may serve again; what is
        still to come is not waited for."""
        if (yield ParseBuffered(cast("Reader[bool]", self.exchange.read_over))):
            yield from self._leave(findings)

    def give(self, reply: Reply, decoding: Decoding | None) -> Dialogue[None]:
        """The body, decoded; its proofs and findings go to the reply."""
        if isinstance(self.exchange, Http2Exchange):
            yield from _give_frames(self.exchange, decoding)
            reply.verified.add("terminator" if self.head.length is None else "length")
        elif self.head.framing is BodyFraming.CHUNKED:
            yield from _give_chunks(self.exchange, decoding)
            reply.verified.add("terminator")
        else:
            passed = yield from copy_body(CopyBody(_BODY, self.head.length, filter=decoding))
            if self.head.framing is BodyFraming.LENGTH:
                reply.verified.add("length")
            else:
                self._judge_close(passed, reply)
                return
        yield from self._leave(reply.findings)

    def _judge_close(self, passed: CopiedBody, reply: Reply) -> None:
        if passed.close_notify:
            reply.verified.add("close-notify")
        elif not self.secured:
            detail = "nothing but the end of the connection says that this is all"
            reply.findings.append(Finding("http:no-length", "warn", detail))
        elif not passed.octets:
            raise Disconnected("TLS was cut off before the first octet of the body")
        else:
            message = f"TLS was cut off after {passed.octets} octets of the body"
            raise Truncated(message, received=passed.octets)

    def _leave(self, findings: list[Finding]) -> Dialogue[None]:
        exchange = self.exchange
        surplus = (
            (yield ReleaseToPool(exchange.state))
            if exchange.reusable
            else (yield ParseBuffered(count_waiting))
        )
        if surplus and isinstance(exchange, Http1Exchange):
            detail = f"{surplus} octets came behind the end of the answer"
            findings.append(Finding("http:surplus", "warn", detail))


def _give_chunks(exchange: Http1Exchange, decoding: Decoding | None) -> Dialogue[None]:
    received = 0
    while True:
        try:
            octets = yield from receive(exchange.read_chunks, "chunks of the body", b"")
        except Disconnected as error:
            if not received:
                raise
            message = f"after {received} octets, before the last chunk: {error.message}"
            raise Truncated(message, received=received) from error
        if not octets:
            break
        received += len(octets)
        yield from _give(octets, decoding)
    yield from _finish(decoding)


def _give_frames(exchange: Http2Exchange, decoding: Decoding | None) -> Dialogue[None]:
    """What has to be sent for more to come is sent before more is awaited, so that the peer never has more
    under way than the window that was opened to it."""
    while True:
        try:
            octets = yield from receive(exchange.read_data, "frames of the body", cast("bytes | None", b""))
            if octets is None:
                yield Send(exchange.must_send())
                continue
        except Disconnected as error:
            raise exchange.cut("the connection was reset") from error
        if not octets:
            break
        yield from _give(octets, decoding)
    yield from _finish(decoding)


def _give(octets: bytes, decoding: Decoding | None) -> Dialogue[None]:
    for piece in (octets,) if decoding is None else decoding.feed(octets):
        yield EmitBody(piece)


def _finish(decoding: Decoding | None) -> Dialogue[None]:
    for piece in () if decoding is None else decoding.finish():
        yield EmitBody(piece)
