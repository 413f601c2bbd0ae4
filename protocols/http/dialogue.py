"""From an http URL to its answer: credentials if there are any, one request, one head.

The connection may be one that served before. If the server gives up such a connection without a word,
the request is sent once more on a new one: a GET or HEAD may be (RFC 9110 9.2.2, RFC 9112 9.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from protocols.errors import Disconnected
from protocols.http.codings import ALWAYS
from protocols.http.exchange import Exchange
from protocols.http.framed_exchange import FramedExchange, header_section
from protocols.http.head import Head
from protocols.http.request import Request, compose
from protocols.http.url import HttpUrl
from protocols.options import Credentials, Frames, Limits, Options
from protocols.step import AskAgreed, AskCredentials, Borrow, Connect, Dialogue, HandOver, Note, Say, hear

_IDEAL = Head(200, "OK", ())
#: What a server answers to a HEAD that it does not do.
_NO_HEAD = (405, 501)
_PARTIAL = 206
#: The object ends before the part that was asked for begins.
_NO_SUCH_PART = 416


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(HandOver):
    """The head has come, what follows is the body. `exchange` has what is needed to read it."""

    exchange: Exchange | FramedExchange
    head: Head


def retrieve(url: HttpUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """The steps of a retrieval. Where only facts are wanted they are asked for by HEAD, and by a GET
    whose body is left unread where the server does not do that. An object that is shorter now than what is
    held of it is asked for from its beginning, and one of which another part came than was asked for."""
    options, limits = options or Options(), limits or Limits()
    credentials = yield from _credentials(url, options)
    request = compose(url, options, credentials, accepted(options))
    answered = yield from _ask(url, request, options, limits)
    if request.method == b"HEAD" and answered.head.status in _NO_HEAD:
        answered = yield from _ask(url, request._replace(method=b"GET"), options, limits)
    if options.start and not _goes_on(answered.head, options.start):
        whole = compose(url, replace(options, start=0), credentials, accepted(options))
        answered = yield from _ask(url, whole, options, limits)
    yield Note("a redirect would be judged by the policy and followed as a retrieval of its own")
    yield answered


def _goes_on(head: Head, start: int) -> bool:
    """May this answer be read on? Not one to a part that is not there, nor with another part."""
    if head.status == _PARTIAL:
        from protocols.http.part import is_part  # few retrievals go on in the middle

        return is_part(head, start)
    return head.status != _NO_SUCH_PART


def accepted(options: Options) -> tuple[str, ...]:
    """The codings to ask for: none where the octets are wanted as the peer keeps them, or none at all."""
    return (*ALWAYS, *options.codings) if options.want == "content" else ()


def _credentials(url: HttpUrl, options: Options) -> Dialogue[Credentials | None]:
    """Those of the URL, else those that came with a redirect to the same place, else those held for it."""
    if url.password is not None:
        return Credentials(url.user or b"", url.password)
    if options.login is not None and not url.user:
        return options.login
    user = url.user or None
    held = cast("Credentials | None", (yield AskCredentials(user, None)))
    return Credentials(user, b"") if held is None and user is not None else held


def _ask(url: HttpUrl, request: Request, options: Options, limits: Limits) -> Dialogue[Answered]:
    tls = url.scheme == "https"
    exchange = Exchange(request, limits)  # before anything is opened: it refuses what cannot be sent
    exchange.encode_end()
    used = yield Borrow(request.whom, tls=tls)
    try:
        return (yield from _talk(exchange, request, options, limits, used))
    except Disconnected:
        if used is None:
            raise
    exchange = Exchange(request, limits)
    exchange.encode_end()
    yield Connect(tls=tls)
    return (yield from _talk(exchange, request, options, limits, None))


def _talk(
    plain: Exchange, request: Request, options: Options, limits: Limits, used: object | None
) -> Dialogue[Answered]:
    """Ask and hear the head, in frames where the peer chose them or did so when it was asked first."""
    frames = cast(Frames, used) if used not in (None, True) else None
    if used is None and options.http2 is not None and (yield AskAgreed()) == "h2":
        frames = options.http2(header_section(limits))
    exchange = plain if frames is None else FramedExchange(request, limits, frames)
    head = yield from _hear_head(exchange)
    return Answered("the body, as long as the head says", head.length, exchange=exchange, head=head)


def _hear_head(exchange: Exchange | FramedExchange) -> Dialogue[Head]:
    if isinstance(exchange, Exchange):
        yield Say((exchange.line,))
        return (yield from hear(exchange.read_head, "status line and headers", _IDEAL))
    heard: Head | None = None
    while heard is None:
        if (line := exchange.unsent()) is not None:
            yield Say((line,))
        heard = yield from hear(exchange.read_head, "status and headers", None)
    return heard
