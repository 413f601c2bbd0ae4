"""An HTTP call: sends a request and reads the response in the HTTP version of the connection.

The server may close a pooled connection without a response. The client then retries a request that is safe to
repeat (idempotent) once, on a new connection (RFC 9110 9.2.2, RFC 9112 9.3.1). A response may arrive while
the client still sends the request body. If this response is an error, the client stops sending the body (RFC
9112 9.5). If the response is a success, the client continues to send, because the server may still read the
body.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

from protocols.contract import Reply
from protocols.errors import Disconnected, LoginRequired, Truncated
from protocols.http.codings import Decoding
from protocols.http.http1 import MAX_SINGLE_WRITE, Http1Exchange
from protocols.http.http2 import Http2Exchange, header_section
from protocols.http.request import HttpRequest
from protocols.http.response import BodyFraming, ResponseHead
from protocols.location import Finding
from protocols.options import ForwardProxy, Frames, Limits, Options
from protocols.step import (
    Acquire,
    Connect,
    CopiedBody,
    CopyBody,
    Dialogue,
    EmitBody,
    ParseBuffered,
    RandomBytes,
    Receive,
    ReleaseToPool,
    RequestAgreed,
    Send,
    SendBody,
    StopCondition,
    receive,
)
from protocols.wire import Reader, count_waiting

# A response: the head, the body, and the check that the response is complete.
#
# A response is complete if Content-Length bytes were received, or the last chunk was received. Without
# Content-Length and chunks, a response is complete at the end of the stream. In a TLS connection,
# close_notify proves the end of the stream. The connection can be reused only if the response is complete and
# no further bytes follow.

_BODY = "the body, as framed in the head"


class HttpAnswer(NamedTuple):
    """A response whose head was read. The body is read through `exchange`."""

    exchange: Http1Exchange | Http2Exchange
    head: ResponseHead
    secured: bool

    def skip_body(self, findings: list[Finding]) -> Dialogue[None]:
        """Skip an unwanted body without waiting. Only a completely buffered body permits the reuse."""
        if (yield ParseBuffered(cast("Reader[bool]", self.exchange.skip_body))):
            self._note_surplus((yield ReleaseToPool(self.exchange.state)), findings)

    def emit_body(self, reply: Reply, decoding: Decoding | None) -> Dialogue[object]:
        """Pass on the decoded body, and add the findings and the passed checks to the reply.

        Returns:
            The state of the connection for the pool. None if the connection cannot be reused.
        """
        exchange = self.exchange
        if isinstance(exchange, Http2Exchange):
            yield from _emit_frames(exchange, decoding)
            reply.verified.add("terminator" if self.head.length is None else "length")
        elif self.head.framing is BodyFraming.CHUNKED:
            yield from _emit_chunks(exchange, decoding)
            reply.verified.add("terminator")
            self._note_surplus((yield ParseBuffered(count_waiting)), reply.findings)
        else:
            passed: CopiedBody = yield CopyBody(_BODY, self.head.length, filter=decoding)
            if self.head.framing is not BodyFraming.LENGTH:
                self._check_close(passed, reply)
                return None
            reply.verified.add("length")
            if passed.surplus:
                self._note_surplus(passed.surplus, reply.findings)
        return exchange.state

    def _check_close(self, passed: CopiedBody, reply: Reply) -> None:
        if passed.close_notify:
            reply.verified.add("close-notify")
        elif not self.secured:
            detail = "the response has no length: the body may be truncated"
            reply.findings.append(Finding("http:no-length", "warn", detail))
        elif not passed.octets:
            raise Disconnected(
                "the connection ended without TLS close_notify before the first byte of the body"
            )
        else:
            message = f"the connection ended without TLS close_notify after {passed.octets} bytes of the body"
            raise Truncated(message, received=passed.octets)

    def _note_surplus(self, surplus: int, findings: list[Finding]) -> None:
        if surplus and isinstance(self.exchange, Http1Exchange):
            detail = f"{surplus} bytes received after the end of the response"
            findings.append(Finding("http:surplus", "warn", detail))


def _emit_chunks(exchange: Http1Exchange, decoding: Decoding | None) -> Dialogue[None]:
    received = 0
    while True:
        try:
            octets = yield from receive(exchange.read_chunks, "chunks of the body", b"")
        except Disconnected as error:
            if not received:
                raise
            message = f"the body is truncated after {received} bytes, before the last chunk: {error.message}"
            raise Truncated(message, received=received) from error
        if not octets:
            break
        received += len(octets)
        yield from _emit(octets, decoding)
    if decoding is not None:
        decoding.finish()


def _emit_frames(exchange: Http2Exchange, decoding: Decoding | None) -> Dialogue[None]:
    """Pass on a body that arrives in HTTP/2 frames.

    Pending frames, such as window updates, are sent before the next read. The peer therefore never sends more
    than the flow-control window allows (backpressure).
    """
    while True:
        try:
            octets = yield from receive(exchange.read_data, "frames of the body", cast("bytes | None", b""))
            if octets is None:
                yield from exchange.send_unsent()
                continue
        except Disconnected as error:
            if not exchange.received:
                raise
            raise exchange.make_cut_error("the connection was reset") from error
        if not octets:
            break
        yield from _emit(octets, decoding)
    if decoding is not None:
        decoding.finish()


def _emit(octets: bytes, decoding: Decoding | None) -> Dialogue[None]:
    for piece in (octets,) if decoding is None else decoding.feed(octets):
        yield EmitBody(piece)


_EXPECTED = ResponseHead(200, "OK", ())
#: The lowest status code that makes the client stop sending the request body.
_MIN_STOP_STATUS = 300
#: The status code of a proxy that requires a login (RFC 9110 15.5.8).
_LOGIN_REQUIRED = 407
#: The number of random bytes in a `cnonce` (client nonce of Digest).
UNGUESSABLE = 16


def _perform_by_proxy(
    request: HttpRequest, via: ForwardProxy, options: Options, limits: Limits
) -> Dialogue[HttpAnswer]:
    """Send the request to the proxy, and again with the login if the proxy requires a login.

    The login is sent once. If the proxy rejected only a stale nonce, the login is sent again.
    """
    while True:
        proxied = request.route_through(via.place)
        sent = via.login.fields(proxied.method, proxied.target)
        answer = yield from perform(proxied.add_fields(sent), replace(options, via=None), limits, tls=False)
        if answer.head.status != _LOGIN_REQUIRED:
            return answer
        yield from answer.skip_body([])
        unguessable: bytes = yield RandomBytes(UNGUESSABLE)
        via.login.heed(answer.head.values("proxy-authenticate"), sent, unguessable)
        if not isinstance(request.body, bytes):
            words = "the proxy requires a login, but the body cannot be sent twice"
            raise LoginRequired(words, code="407").with_setting("proxy")


def perform(request: HttpRequest, options: Options, limits: Limits, *, tls: bool) -> Dialogue[HttpAnswer]:
    """Send a request and receive the head of the response, on a pooled connection or a new connection.

    The request is sent directly, or through the forward proxy. HTTP/2 is used if the connection already uses
    HTTP/2. On a new connection, HTTP/2 is used if the peer chose h2 in ALPN.

    Raises:
        Refused: the request cannot be sent (S02, command injection). No connection was opened.
    """
    if options.via is not None:
        return (yield from _perform_by_proxy(request, options.via, options, limits))
    exchange, sending = _prepare(request, limits)
    key = request.pool_key(exchange.secrets)
    pooled = yield Acquire(key, tls)
    if options.http2 is None and pooled is not None and pooled is not True:
        yield ReleaseToPool(pooled)  # the connection uses HTTP/2
        pooled = yield Acquire((key, "not in frames"), tls=tls)
    while True:
        frames: Frames | None = None if pooled is True else pooled
        if pooled is None and options.http2 is not None and (yield RequestAgreed()) == "h2":
            frames = options.http2(header_section(limits))
        try:
            if frames is not None:
                http2_exchange = Http2Exchange(request, limits, frames)
                return HttpAnswer(http2_exchange, (yield from _receive_head(http2_exchange)), tls)
            head: ResponseHead | None = None
            try:
                # If an error response arrives before the complete request was sent, sending stops. The peer
                # may close the connection without reading the remaining bytes.
                if (head := (yield sending)) is not None:
                    exchange.is_cut_off = True
            except Disconnected:
                exchange.is_cut_off = True  # the send failed, but the server may have sent an early response
            if head is None:
                head = yield Receive(exchange.read_head, "status line and headers", _EXPECTED)
            return HttpAnswer(exchange, head, tls)
        except Disconnected:
            if pooled is None or not request.repeatable:
                raise
        yield Connect(tls=tls)
        exchange, sending = _prepare(request, limits)
        pooled = None


def _prepare(request: HttpRequest, limits: Limits) -> tuple[Http1Exchange, Send | SendBody]:
    """Return the exchange of an HTTP/1.1 request, and the step that sends the request."""
    exchange, body = Http1Exchange(request, limits), request.body
    if exchange.is_plain and len(exchange.line.octets) <= MAX_SINGLE_WRITE:
        return exchange, Send((exchange.line,))
    unless = StopCondition(exchange.read_head, lambda head: head.status >= _MIN_STOP_STATUS)
    if not isinstance(body, bytes):
        return exchange, SendBody((exchange.line,), body, exchange.encode_piece, unless)
    pieces = () if exchange.is_plain else (body, b"") if body else (b"",)
    encoded = [exchange.encode_piece(octets) for octets in pieces]
    lines = (exchange.line, *(line for line in encoded if line.octets))
    is_large = sum(len(line.octets) for line in lines) > MAX_SINGLE_WRITE
    return exchange, Send(lines, unless if is_large else None)


def _receive_head(exchange: Http2Exchange) -> Dialogue[ResponseHead]:
    head: ResponseHead | None = None
    while head is None:
        yield from exchange.send_unsent()
        head = yield from receive(exchange.read_head, "status and headers", None)
    return head
