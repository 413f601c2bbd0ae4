"""A request put to a server, and the head of its answer, in the version that the connection speaks.

The connection may be one that served before. If the server gives up such a connection without a word, the
request is sent once more on a new one, where that does no harm (RFC 9110 9.2.2, RFC 9112 9.3.1). An answer
may come while the request still goes out: one that says no makes the rest of it pointless (RFC 9112 9.5),
while who sends a good one may still want it.
"""

from __future__ import annotations

from typing import cast

from protocols.connection import Line
from protocols.errors import Disconnected, LoginRequired
from protocols.http.answer import HttpAnswer
from protocols.http.exchange import AT_ONCE, Http1Exchange
from protocols.http.framed_exchange import Http2Exchange, header_section
from protocols.http.head import ResponseHead
from protocols.http.request import HttpRequest
from protocols.options import ForwardProxy, Frames, Limits, Options
from protocols.step import (
    Acquire,
    Connect,
    Dialogue,
    RandomBytes,
    Receive,
    ReleaseToPool,
    RequestAgreed,
    Send,
    SendBody,
    StopCondition,
    receive,
)

_IDEAL = ResponseHead(200, "OK", ())
#: From this status on nobody waits for the rest of a request.
_NOT_WANTED = 300
#: A proxy's (RFC 9110 15.5.8).
_LOGIN_WANTED = 407
#: Octets that its login may be made with.
_UNGUESSABLE = 16


def perform(request: HttpRequest, options: Options, limits: Limits, *, tls: bool) -> Dialogue[HttpAnswer]:
    """Raises `Refused` (S02) for what cannot be sent, before anything is opened."""
    if options.via is None:
        return _perform(request, options, limits, tls=tls)
    return _perform_by_proxy(request, options.via, options, limits)


def _perform_by_proxy(
    request: HttpRequest, via: ForwardProxy, options: Options, limits: Limits
) -> Dialogue[HttpAnswer]:
    """The proxy, which may want a login first: it gets one once, and anew where its nonce was too old."""
    while True:
        whole = request.through(via.place)
        sent = via.login.fields(whole.method, whole.target)
        answer = yield from _perform(whole.telling(sent), options, limits, tls=False)
        if answer.head.status != _LOGIN_WANTED:
            return answer
        yield from answer.pass_over([])
        unguessable = cast(bytes, (yield RandomBytes(_UNGUESSABLE)))
        via.login.heed(answer.head.values("proxy-authenticate"), sent, unguessable)
        if not isinstance(request.body, bytes):
            raise LoginRequired("the proxy wanted a login, and the body cannot be sent twice", code="407")


def _perform(request: HttpRequest, options: Options, limits: Limits, *, tls: bool) -> Dialogue[HttpAnswer]:
    call = _HttpCall(request, limits)
    used = yield Acquire(request.pool_key, tls=tls)
    if options.http2 is None and _frames_of(used) is not None:
        used = yield from _acquire_another(request, used, tls)
    try:
        return (yield from _exchange(call, request, options, limits, used, tls))
    except Disconnected:
        if used is None or not request.repeatable:
            raise
    yield Connect(tls=tls)
    return (yield from _exchange(_HttpCall(request, limits), request, options, limits, None, tls))


def _acquire_another(request: HttpRequest, used: object | None, tls: bool) -> Dialogue[object | None]:
    """One that speaks in frames goes back to those who do, where nobody is to speak so."""
    yield ReleaseToPool(used)
    return (yield Acquire((request.pool_key, "not in frames"), tls=tls))


def _frames_of(used: object | None) -> Frames | None:
    return None if used is None or used is True else cast(Frames, used)


def _exchange(
    call: _HttpCall,
    request: HttpRequest,
    options: Options,
    limits: Limits,
    used: object | None,
    secured: bool,
) -> Dialogue[HttpAnswer]:
    """Ask and hear the head, in frames where the peer chose them or did so when it was asked first."""
    frames = _frames_of(used)
    if used is None and options.http2 is not None and (yield RequestAgreed()) == "h2":
        frames = options.http2(header_section(limits))
    if frames is None:
        return HttpAnswer(call.exchange, (yield from call.hear_head()), secured)
    exchange = Http2Exchange(request, limits, frames)
    return HttpAnswer(exchange, (yield from _hear_head(exchange)), secured)


class _HttpCall:
    """A request as HTTP/1.1 has it, ready to be sent."""

    def __init__(self, request: HttpRequest, limits: Limits) -> None:
        self.exchange = exchange = Http1Exchange(request, limits)
        self._body = request.body
        self._lines: tuple[Line, ...] = (exchange.line,)
        if isinstance(request.body, bytes) and not exchange.is_plain:
            pieces = (request.body, b"") if request.body else (b"",)
            encoded = [exchange.encode_piece(octets) for octets in pieces]
            self._lines += tuple(line for line in encoded if line.octets)

    def hear_head(self) -> Dialogue[ResponseHead]:
        """Send the request. The head of an answer that came before all of it was gone makes the rest
        pointless: the peer may leave without reading that."""
        early: object | None = None
        try:
            early = yield self._saying()
        except Disconnected:
            self.exchange.cut_off()  # it may have said why before it went
        if early is not None:
            self.exchange.cut_off()
            return cast(ResponseHead, early)
        return cast(ResponseHead, (yield Receive(self.exchange.read_head, "status line and headers", _IDEAL)))

    def _saying(self) -> Send | SendBody:
        if not isinstance(self._body, bytes):
            return SendBody(self._lines, self._body, self.exchange.encode_piece, self._unless)
        if self.exchange.is_plain and len(self.exchange.line.octets) <= AT_ONCE:
            return Send(self._lines)
        if sum(len(line.octets) for line in self._lines) > AT_ONCE:
            return Send(self._lines, self._unless)
        return Send(self._lines)

    @property
    def _unless(self) -> StopCondition[ResponseHead]:
        return StopCondition(self.exchange.read_head, _says_no)


def _says_no(head: ResponseHead) -> bool:
    return head.status >= _NOT_WANTED


def _hear_head(exchange: Http2Exchange) -> Dialogue[ResponseHead]:
    heard: ResponseHead | None = None
    while heard is None:
        if (line := exchange.unsent()) is not None:
            yield Send((line,))
        heard = yield from receive(exchange.read_head, "status and headers", None)
    return heard
