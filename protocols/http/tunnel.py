"""A connection through an HTTP proxy: CONNECT (RFC 9110 9.3.6).

Any 2xx response opens the tunnel. Every byte after the response head belongs to the tunnel, so a
Content-Length in the head is ignored. The proxy learns only the host and port of the target.
"""

from __future__ import annotations

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LimitExceeded,
    ProtocolError,
    ResolveError,
    TimedOut,
    TryLater,
    Unreachable,
)
from protocols.http.auth import HttpProxyAuth
from protocols.http.call import UNGUESSABLE
from protocols.http.http1 import Http1Exchange
from protocols.http.request import prepare
from protocols.http.response import ResponseHead
from protocols.options import Limits
from protocols.step import Dialogue, RandomBytes, Send, receive

#: The limits for a proxy's response, in bytes and lines. The response heads of Squid have 1 KiB.
_LIMITS = Limits(line=16_384, lines=100)

#: The status codes that require a login. After a wrong proxy login, tinyproxy sends 401 instead of 407.
_LOGIN_REQUIRED = frozenset({401, 407})
_NOT_ALLOWED = frozenset({403, 405, 501})
_NOT_REACHED = frozenset({500, 502, 503})
_TEMPORARY = frozenset({421, 429})
_TOO_SLOW = 504
_EXPECTED = ResponseHead(200, "Connection established", ())


def open_tunnel(host: str, port: int, login: HttpProxyAuth) -> Dialogue[bool]:
    """Open the tunnel, and return whether the proxy opened it.

    If the proxy requires a login, the result is False, and the tunnel is not open.

    Raises:
        ResolveError: the proxy refused. The status code determines the subclass.
    """
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    target = place.encode("ascii")
    sent = login.fields(b"CONNECT", target)
    exchange = Http1Exchange(prepare(b"CONNECT", target, [(b"Host", target), *sent]), _LIMITS)
    exchange.encode_piece(b"")  # h11 requires the end of the body, even for a request without a body
    yield Send((exchange.line,))
    head = yield from _receive_head(exchange, login.proxy)
    if 200 <= head.status < 300:
        return True
    if head.status in _LOGIN_REQUIRED:
        unguessable: bytes = yield RandomBytes(UNGUESSABLE)
        login.heed(head.values("proxy-authenticate"), sent, unguessable)
        return False
    raise _refusal(head, port, f"the proxy {login.proxy}")


def _receive_head(exchange: Http1Exchange, proxy: str) -> Dialogue[ResponseHead]:
    try:
        return (yield from receive(exchange.read_head, "the response of the proxy", _EXPECTED))
    except Disconnected as error:
        raise Disconnected(
            f"the proxy {proxy} ended the connection before the end of its response"
        ) from error
    except LimitExceeded:
        raise
    except ProtocolError as error:
        raise ProtocolError(f"{proxy} is not an HTTP proxy: {error.message}") from error


def _refusal(head: ResponseHead, port: int, proxy: str) -> ResolveError:
    """Return the error for a refusal. The error does not contain the error page of the proxy."""
    code, words = str(head.status), f"{proxy} answers {head.shown}"
    if head.status in _NOT_ALLOWED:
        return AccessDenied(f"{proxy} does not allow connections to port {port} ({head.shown})", code=code)
    if head.status in _NOT_REACHED:  # Squid: 503 for a closed port, 500 for an unknown host; tinyproxy: 500
        return Unreachable(f"{words}: it cannot connect to port {port} of the target", retryable=False)
    if head.status == _TOO_SLOW:
        return TimedOut(f"{words}: its connection to the target timed out")
    if head.status in _TEMPORARY:
        return TryLater(words, code=code, text=head.reason)
    if head.status < 400:
        return ProtocolError(f"{words} to CONNECT: a tunnel is never redirected")
    return Declined(words, code=code, text=head.reason)
