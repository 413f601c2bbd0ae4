"""The server side of an HTTP/1.1 proxy (RFC 9110 9.3.6, RFC 9112 3.2): CONNECT and absolute-form requests.

`read_request` refuses every head that two parsers could read in different ways (request smuggling). Such a
head has a bare LF or CR, a folded line (RFC 9112 5.2), or Content-Length together with Transfer-Encoding (RFC
9112 6.3). h11 accepts some of these heads, so each head is checked before h11 receives the head.

The host of the target replaces the received Host (RFC 9112 3.2.2); undici 5 sends the address of the proxy.

A connection serves one request. Bytes after this request, such as a pipelined request, are never forwarded.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import NamedTuple, TypeAlias

import h11

from protocols.contract import Line
from protocols.errors import LimitExceeded, ProtocolError
from protocols.wire import Buffer, encode_counted

#: Maximum size in bytes of a request head, as in Apache (100 fields) and nginx (4 buffers of 8 KiB).
MAX_HEAD = 32_768
MAX_FIELDS = 100
_END = b"\r\n\r\n"
_STRAY = re.compile(rb"\r(?!\n)|(?<!\r)\n|\0")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_FOLDED = re.compile(rb"\r\n[ \t]")
_AUTHORITY = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[^\s\[\]:/?#@\\]{1,255}):(\d{1,5})")
_ABSOLUTE = re.compile(rb"http://([^/?#@\\]+)([/?][^#]*)?", re.IGNORECASE)
#: Hop-by-hop header fields (RFC 9110 7.6.1), and `Proxy-Connection` of old clients.
_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authentication-info",
    b"proxy-authorization", b"proxy-connection", b"te", b"trailer", b"upgrade",
})  # fmt: skip

Fields: TypeAlias = "list[tuple[bytes, bytes]]"


class ProxyRequest(NamedTuple):
    """A request to a proxy.

    Attributes:
        url: the URL for the policy check. For CONNECT, the URL consists of the host and port.
        target: the request target in origin-form for the server. For CONNECT, the target is empty.
        fields: the fields to forward.
    """

    method: bytes
    url: str
    target: bytes
    fields: Fields

    @property
    def is_tunnel(self) -> bool:
        return self.method == b"CONNECT"


def endpoint_url(host: str, port: int) -> str:
    """Return the URL of a tunnel's target for the policy check.

    The proxy cannot inspect the data of a tunnel, which is usually TLS.
    """
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}/" if port == 80 else f"https://{shown}:{port}/"


class ProxyConnection:
    """The two h11 machines of one proxied request: one for the client, one for the origin server."""

    def __init__(self) -> None:
        self.client = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self.target = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)

    def read_request(self, buffer: Buffer) -> Generator[None, None, ProxyRequest]:
        """Read a request head.

        Raises:
            ProtocolError: the head is not a request to a proxy, or is ambiguous.
            LimitExceeded: the head is too large.
        """
        checked = 0
        while (size := buffer.search(_END, MAX_HEAD)) < 0:
            # A bare LF is refused immediately. Otherwise, the proxy would wait for CR LF until the timeout.
            if _BARE_LF.search(buffer.peek(MAX_HEAD), checked):
                raise ProtocolError("the request head has a bare LF")
            checked = len(buffer)
            if len(buffer) >= MAX_HEAD:
                raise LimitExceeded("line", f"the request head is longer than {MAX_HEAD} bytes")
            if buffer.at_end:
                raise ProtocolError("the client closed the connection inside the request head")
            yield
        head = buffer.take(size + len(_END))
        if _STRAY.search(head):
            raise ProtocolError("the request head has a bare CR or LF, or NUL")
        if _FOLDED.search(head):
            raise ProtocolError("the request head has a folded line (obs-fold)")
        if head.count(b"\r\n") - 2 > MAX_FIELDS:
            raise LimitExceeded("lines", f"the request head has more than {MAX_FIELDS} fields")
        self.client.receive_data(head)
        event = self.next_event(self.client)
        if not isinstance(event, h11.Request):
            raise ProtocolError("this is not an HTTP/1.1 request")
        return _check(event)

    def next_event(self, machine: h11.Connection) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event of a machine.

        Raises:
            ProtocolError: the received bytes are invalid.
        """
        try:
            return machine.next_event()
        except h11.RemoteProtocolError as error:
            raise ProtocolError("this is not HTTP/1.1: " + str(error).partition(": b")[0]) from error

    def encode(self, machine: h11.Connection, event: h11.Event) -> bytes:
        """Encode an event.

        Raises:
            ProtocolError: the event is not allowed at this point of the message.
        """
        try:
            return machine.send(event) or b""
        except h11.LocalProtocolError as error:
            raise ProtocolError("cannot forward the message: " + str(error).partition(": b")[0]) from error


def _check(request: h11.Request) -> ProxyRequest:
    # RFC 9110 2.5: a later minor version is compatible; a different major version is another protocol.
    if not request.http_version.startswith(b"1."):
        raise ProtocolError("the request is not HTTP/1.1")
    fields = list(request.headers)
    names = [name for name, _ in fields]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise ProtocolError("the request has both Content-Length and Transfer-Encoding")
    if request.method == b"CONNECT":
        place = _AUTHORITY.fullmatch(request.target)
        if place is None or not 0 < int(place[2]) < 65_536:
            raise ProtocolError("the target of CONNECT must be HOST:PORT")
        if b"content-length" in names or b"transfer-encoding" in names:
            raise ProtocolError("CONNECT must not have a body")
        return ProxyRequest(
            request.method, endpoint_url(place[1].strip(b"[]").decode("latin-1"), int(place[2])), b"", []
        )
    absolute = _ABSOLUTE.fullmatch(request.target)
    if absolute is None:
        raise ProtocolError("expected CONNECT or an absolute http URL without user and fragment")
    rest = absolute[2] or (b"*" if request.method == b"OPTIONS" else b"/")  # RFC 9112 3.2.4
    forwarded = [(b"Host", absolute[1]), *((n, v) for n, v in forwardable(fields) if n != b"host")]
    return ProxyRequest(
        request.method,
        request.target.decode("latin-1"),
        b"/" + rest if rest.startswith(b"?") else rest,
        [*forwarded, (b"Connection", b"close")],
    )


def forwardable(fields: Iterable[tuple[bytes, bytes]]) -> Fields:
    """Return the fields without the hop-by-hop fields.

    RFC 9110 lists the hop-by-hop fields. The field `Connection` may list further hop-by-hop fields.
    """
    pairs = list(fields)
    named = {
        word.strip().lower() for name, value in pairs if name == b"connection" for word in value.split(b",")
    }
    # These fields define the length of the body, so `Connection` must not remove them.
    named -= {b"content-length", b"transfer-encoding", b"host"}
    return [(name, value) for name, value in pairs if name not in _HOP_BY_HOP and name not in named]


def encode_answer(status: int, reason: str, text: str) -> Line:
    """Encode an error response with a short text, which closes the connection."""
    body = text.encode("ascii", "backslashreplace") + b"\n"
    machine = h11.Connection(h11.SERVER)
    fields = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Connection", "close")]
    head = machine.send(h11.Response(status_code=status, reason=reason, headers=fields)) or b""
    return encode_counted(head + body)
