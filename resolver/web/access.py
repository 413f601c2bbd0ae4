"""Access control of the web UI (CSRF, DNS rebinding): ASGI middleware that checks each request.

The checks admit only requests from the user and from pages of the web UI. `CHECKS` lists the checks in order.
Each check takes a request, and returns a refusal or None.

A web page from another site can send requests to every port of this machine. If the web page comes from
another port of this address, the browser also sends the session cookie. The reason is that cookies and
`SameSite` ignore ports. So the access checks use three request headers:
- `Sec-Fetch-Site`: the browser states which site caused the request.
- `Host`: a foreign host name that resolves to this address shows a DNS rebinding attack.
- `Cookie`: other programs can forge `Sec-Fetch-Site` and `Host`, but do not have the session cookie.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import nullcontext, suppress
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import trio

from protocols.errors import LocalError, NotConfigured
from protocols.text import Masked, own_text
from resolver.url.registry import SCHEMES
from resolver.web import headers
from resolver.web.headers import SessionKeys

# The path of a page contains the target URL as one segment. All bytes of the URL except letters, digits and
# `-._~` are percent-encoded.
#
# In a path, browsers remove dot segments, control characters, and a `#` with the following text. But browsers
# do not change a completely percent-encoded path segment. Therefore the target URL is read from the raw bytes
# of the path, and decoded once.

PREFIX = b"/u/"
#: The prefix that browsers require for a scheme whose protocol handler is a web page.
_WEB = "web+"
#: The placeholder for the page ID if a link is on another site, and so not on a page of the web UI. No page
#: of the web UI has this ID.
EXTERNAL_ID = "asked"
_MAX_FIELDS = 200
#: The percent-encoding of each ASCII character. The percent sign must be replaced before the others.
_ENCODED = {mark: quote(mark, safe="") for mark in ["%", *map(chr, range(128))]}
_ENCODED = {mark: encoded for mark, encoded in _ENCODED.items() if mark != encoded}


class PageAddress(NamedTuple):
    """The target URL in the path of a request.

    If `raw` is true, the user typed the target URL into the path without percent-encoding. The browser may
    have changed the characters of a URL without percent-encoding.
    """

    text: str
    raw: bool


def make_path(url: str) -> str:
    return f"/u/{quote_whole(url)}"


def make_link(url: str, from_id: str, relevant: Iterable[str] = ()) -> str:
    """Return a link to the page for a URL.

    Args:
        url: The target of the link.
        from_id: ID of the page that contains the link. If the ID is empty, the link has no `from` field.
        relevant: URLs of documents. The link searches for similar documents (relevance feedback).
    """
    fields = [f"from={from_id}"] if from_id else []
    fields += (f"relevant={quote_whole(document)}" for document in relevant)
    return f"{make_path(url)}?{'&'.join(fields)}" if fields else make_path(url)


def make_preview_link(url: str, from_id: str) -> str:
    """Return a link to the preview of a URL.

    The preview is a page with the verdict of the policy, and no request is sent.

    Args:
        url: The target of the link.
        from_id: ID of the page that contains the link. `EXTERNAL_ID` if the link is on another site.
    """
    return f"/look?url={quote_whole(url)}&from={from_id}"


def quote_whole(text: str) -> str:
    """Percent-encode as `urllib.parse.quote`, but three times as fast: a page may have 10,000 links."""
    if not text.isascii():
        return quote(text, safe="", errors="surrogateescape")
    for mark, encoded in _ENCODED.items():
        if mark in text:
            text = text.replace(mark, encoded)
    return text


def parse_path(raw_path: bytes) -> PageAddress:
    """Parse the target URL in a raw path below `PREFIX`, without correcting the URL."""
    octets = raw_path[len(PREFIX) :]
    raw = b":" in octets or b"/" in octets
    octets = octets if raw else unquote_to_bytes(octets)
    # The URL parser later rejects invalid bytes.
    return PageAddress(strip_web_prefix(octets.decode("utf-8", "surrogateescape")), raw)


def strip_web_prefix(text: str) -> str:
    """Remove a leading `web+` before a supported scheme, as in `web+gopher:`."""
    if text[: len(_WEB)].lower() == _WEB and text[len(_WEB) :].partition(":")[0].lower() in SCHEMES:
        return text[len(_WEB) :]
    return text


def parse_form(octets: bytes) -> list[tuple[str, str]]:
    """Parse the fields of a form body or query string.

    Raises:
        ValueError: There are more than 200 fields.
    """
    return parse_qsl(
        octets.decode("latin-1"),
        keep_blank_values=True,
        encoding="utf-8",
        errors="surrogateescape",
        max_num_fields=_MAX_FIELDS,
    )


# The listening sockets of the web UI, for browsers of this machine. The sockets are bound before the first
# page is generated, because the pages contain the port numbers. Outbound connections are opened only by the
# network gateway, and not by this module.

#: The IP address to listen on. The name `localhost` is not used, because browsers first try `::1`, where
#: another user may listen.
LOOPBACK = "127.0.0.1"

_OWN_PORTS = {"http": 80, "https": 443}

#: Whether the system reports the user of each socket. Linux does; macOS and the BSDs do not.
_KNOWS_USERS = sys.platform == "linux"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9  # columns of /proc/net/tcp
_LISTENS = b"0A"  # state TCP_LISTEN
_MAX_TABLE = 16_777_216

#: The prefix of an IPv4-mapped IPv6 address (RFC 4291 2.5.5.2).
_MAPPED = bytes(10) + b"\xff\xff"

#: The layout of a sock_diag(7) request for one connection, and of the response. The request has these fields:
#: message header, family and protocol, ports in network byte order, both addresses, any interface, any
#: cookie.
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_PORTS = struct.Struct(">HH")
_USER_AND_INODE = struct.Struct("=II")
_ANY = struct.pack("=III", 0, 0xFFFF_FFFF, 0xFFFF_FFFF)
_ANSWERED_PORTS, _ANSWERED_USER, _ANSWER = 20, 80, 88  # offsets in a response, and length of a response


def bind_socket(address: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address and port.

    The socket does not listen yet. With port 0, the system chooses a free port.

    Raises:
        LocalError: The address or port cannot be bound.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise LocalError(f"cannot listen at {address} port {port}: {error.strerror}") from error
    return listener


def end_connections(port: int) -> None:
    """End the accepted connections of this process at a local port.

    Hypercorn sends without a deadline, and has no interface for its connections. Without this function, a
    client that does not read its response would delay a shutdown. The option TCP_USER_TIMEOUT cannot
    replace it: since Linux 5.11, the option also resets clients that pause reading.
    """
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ():
        with suppress(OSError):  # The descriptor is not a socket, or its connection has ended.
            connection = socket.socket(fileno=int(name))
            try:
                if connection.getsockname()[1:2] == (port,):
                    connection.shutdown(socket.SHUT_RDWR)
            finally:
                connection.detach()


class Certificate(NamedTuple):
    """The paths of the TLS certificate file and of the key file. Both may be the same file."""

    chain: str
    key: str


def check_certificate(certificate: Certificate) -> None:
    """Check that a TLS server can load the certificate and its key.

    Raises:
        NotConfigured: The files cannot be read, the key does not match, or the key is encrypted.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*certificate, password=_no_password)
    except (OSError, ValueError) as error:
        words = f"cannot use certificate {certificate.chain} with key {certificate.key}"
        raise NotConfigured(f"{words}: {error}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted, expected a key without a password")


def make_authority(scheme: str, address: str, port: int) -> str:
    """Return the host and port as in the `Host` header, which omits a default port."""
    host = f"[{address}]" if ":" in address else address
    return host if port == _OWN_PORTS[scheme] else f"{host}:{port}"


def get_port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


class Endpoints(NamedTuple):
    """The local and the remote IP address and port of an accepted connection."""

    peer: tuple[str, int]
    local: tuple[str, int]


def is_of_this_user(ends: Endpoints) -> bool:
    """Return whether the peer is a process of the current user on this machine.

    If the system does not report the users of sockets, every loopback peer counts as the current user. The
    function compares both addresses and both ports, because another user may use the same port at another
    loopback address, such as 127.0.0.2.
    """
    if not ip_address(ends.peer[0]).is_loopback:
        return False
    if not _KNOWS_USERS:
        return True
    if (user := _find_user(ends)) is not None:
        return user == os.geteuid()
    return {uid for table in _TABLES for uid in _list_users(table, ends)} == {os.geteuid()}


def is_listened_to_by_this_user(port: int) -> bool:
    """Return whether all sockets that listen at a port of this machine belong to the current user.

    If the system does not report the users of sockets, the result is True.
    """
    uids = {int(row[_UID]) for table in _TABLES for row in _read_rows(table, port) if row[_STATE] == _LISTENS}
    return uids == {os.geteuid()} or not _KNOWS_USERS


def _find_user(ends: Endpoints) -> int | None:
    """Return the user ID of a connection's peer from a sock_diag request, or None.

    The table of all connections (/proc/net/tcp) is not read. After thousands of connections have ended,
    reading the table would take longer than generating a page. A socket that was closed by its process has
    user 0 and inode 0. For a socket with inode 0, user 0 does not mean root.
    """
    packed = _pack_addresses(ends)
    family = socket.AF_INET if len(packed[0]) == 4 else socket.AF_INET6
    peer_fields = _PORTS.pack(ends.peer[1], ends.local[1]) + b"".join(ip.ljust(16, b"\0") for ip in packed)
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0xFFFF_FFFF) + peer_fields + _ANY
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as system:
            system.send(_HEAD.pack(_HEAD.size + len(question), _BY_FAMILY, _REQUEST, 1, 0) + question)
            reply = system.recv(4_096, socket.MSG_DONTWAIT)
    except (
        AttributeError,
        OSError,
    ):  # the system does not support AF_NETLINK, or refused the sock_diag request
        return None
    if len(reply) < _ANSWER or _HEAD.unpack_from(reply)[1] != _BY_FAMILY:
        return None
    if _PORTS.unpack_from(reply, _ANSWERED_PORTS) != (ends.peer[1], ends.local[1]):
        return None
    user, inode = _USER_AND_INODE.unpack_from(reply, _ANSWERED_USER)
    return int(user) if inode else None


def _list_users(table: str, ends: Endpoints) -> list[int]:
    """Return the user IDs of the peer's sockets from a table, without closed sockets (inode 0)."""
    packed = _pack_addresses(ends)
    prefixes = (b"", _MAPPED) if len(packed[0]) == 4 else (b"",)
    columns = [
        [_make_column(prefix + packed[0], ends.peer[1]), _make_column(prefix + packed[1], ends.local[1])]
        for prefix in prefixes
    ]
    rows = _read_rows(table, ends.peer[1])
    return [int(row[_UID]) for row in rows if [row[_LOCAL], row[_REMOTE]] in columns and row[_INODE] != b"0"]


def _pack_addresses(ends: Endpoints) -> tuple[bytes, bytes]:
    return ip_address(ends.peer[0]).packed, ip_address(ends.local[0]).packed


def _make_column(address: bytes, port: int) -> bytes:
    """Return address and port as in /proc/net/tcp: hexadecimal, in 32-bit units of the host's byte order."""
    units = struct.unpack(f"={len(address) // 4}I", address)
    return b"%b:%04X" % (b"".join(b"%08X" % unit for unit in units), port)


def _read_rows(table: str, port: int) -> list[list[bytes]]:
    """Return the rows of a table (proc(5)) for a local port."""
    try:
        with open(table, "rb") as file:
            lines = file.read(_MAX_TABLE).splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines if b":%04X " % port in line]
    return [row for row in rows if len(row) > _INODE and int(row[_LOCAL].rpartition(b":")[2], 16) == port]


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Any]
Send: TypeAlias = Callable[[Message], Any]
Application: TypeAlias = Callable[[Scope, Receive, Send], Any]

#: Maximum size of a form in bytes, and maximum time in seconds to receive the form (slow-loris).
MAX_FORM = 65_536
FORM_TIMEOUT = 10.0
#: Maximum number of concurrent requests.
MAX_REQUESTS = 64

#: The maximum size in bytes of a form from another program. The size is enough for a percent-encoded URL of
#: 65,536 characters.
MAX_START = 262_144

_ENTRY, _GATEWAY, _START = b"/enter", b"/g/", b"/start"
_UNREGISTER = (
    'self.addEventListener("install", () => self.skipWaiting());\n'
    'self.addEventListener("activate", () => self.registration.unregister());\n'
)


class SiteSettings(NamedTuple):
    """The settings of the web UI that the checks and routes use.

    Attributes:
        authority: The required value of the `Host` header.
        port: The port for pages.
        keys: The secrets of the session: tokens and cookie.
        log: A function that writes a line to the log.
        scheme: `http` or `https`.
        is_public: Whether clients on other machines are allowed. The user of such a client is unknown.
    """

    authority: str
    port: int
    keys: SessionKeys
    log: Callable[[Masked], None]
    scheme: str = "http"
    is_public: bool = False

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def gateway(self) -> str:
        """Return the URL template of the gateway, in which other clients replace `{url}`."""
        return f"{self.origin}/g/{self.keys.gateway}/{{url}}"


class EntryRequest(NamedTuple):
    """A received request before the access checks."""

    method: str
    path: bytes
    query: bytes
    version: str
    headers: Mapping[bytes, tuple[bytes, ...]]
    ends: Endpoints | None

    @property
    def is_entry(self) -> bool:
        return self.path == _ENTRY and self.method in ("GET", "HEAD")

    @property
    def is_gateway(self) -> bool:
        return self.path.startswith(_GATEWAY)

    @property
    def is_start(self) -> bool:
        return self.path == _START and self.method == "POST"

    @property
    def has_own_secret(self) -> bool:
        """Return whether the request is authenticated by another secret than the session cookie."""
        return self.is_entry or self.is_gateway or self.is_start

    @property
    def shown(self) -> str:
        """Return the method and path for the log, with secrets redacted."""
        name = b"/g/..." if self.is_gateway else self.path[:200]
        return f"{self.method} {name.decode('latin-1')}"

    def get_header(self, name: bytes) -> bytes | None:
        """Return the value of a header, or None if the header is absent.

        The values of duplicate headers are joined by commas. A value that is joined from duplicate headers is
        never valid, so the request is refused.
        """
        values = self.headers.get(name, ())
        return None if not values else values[0] if len(values) == 1 else b", ".join(values)


class EntryRefusal(NamedTuple):
    """The refusal of a request by an access check; with `has_preview`, it offers a preview of the URL."""

    status: int
    reason: str
    words: str = ""
    has_preview: bool = False


Check: TypeAlias = Callable[[EntryRequest, SiteSettings], EntryRefusal | None]


def check_peer(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse other users of this machine, because other users may see entry URLs in the process list."""
    if site.is_public or (request.ends is not None and is_of_this_user(request.ends)):
        return None
    return EntryRefusal(403, "peer is another user of this machine, or has disconnected")


def check_version(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse HTTP/2 without TLS (h2c), which Hypercorn accepts but browsers do not use."""
    return None if request.version in ("1.0", "1.1") else EntryRefusal(403, f"HTTP/{request.version}")


def check_host(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse requests whose `Host` header is a foreign name that resolves to this address (DNS rebinding)."""
    if request.headers.get(b"host") == (site.authority.encode("ascii"),):
        return None
    return EntryRefusal(421, f"Host: {(request.get_header(b'host') or b'').decode('latin-1')!r}")


def check_method(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    if request.method not in ("GET", "HEAD", "POST"):
        return EntryRefusal(405, "method")
    return None if request.path.startswith(b"/") else EntryRefusal(421, "proxy requests are not supported")


def check_site(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse requests from other sites, and from other ports of this address (`same-site`).

    A navigation from another site gets a page that offers a preview of the target URL.
    """
    value = request.get_header(b"sec-fetch-site")
    if request.has_own_secret or value in (None, b"same-origin", b"none"):
        return None
    reason = f"Sec-Fetch-Site: {(value or b'').decode('latin-1')!r}"
    navigates = request.get_header(b"sec-fetch-mode"), request.get_header(b"sec-fetch-dest")
    if request.method == "GET" and navigates == (b"navigate", b"document"):
        return EntryRefusal(200, reason, has_preview=True)
    return EntryRefusal(403, reason)


def check_cookie(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse requests without the session cookie.

    The status code is 403, because for 401 browsers would ask the user for a password (RFC 9110 15.5.2).
    """
    if request.has_own_secret or site.keys.has_session_cookie(request.headers.get(b"cookie", ())):
        return None
    return EntryRefusal(403, "no session cookie", "no session cookie (start with: resolve serve --open)\n")


def check_program(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse requests for a new entry token if they are from browsers or lack the secret of `serve.json`."""
    if not request.is_start:
        return None
    names = [name for name in request.headers if name.startswith(b"sec-fetch-") or name == b"origin"]
    if names:
        return EntryRefusal(
            403, f"request of a browser at {request.path.decode('latin-1')}: {names[0].decode('latin-1')}"
        )
    kind, _, secret = (request.get_header(b"authorization") or b"").partition(b" ")
    if kind.lower() == b"bearer" and site.keys.is_start_secret(secret.decode("latin-1")):
        return None
    return EntryRefusal(403, "no valid secret")


def check_origin(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse a POST request that is not a form submission.

    If the `Sec-Fetch-Site` header is absent, a POST request from another origin is refused too.
    """
    if request.method != "POST" or request.is_start:
        return None
    if request.is_entry or request.is_gateway:
        return EntryRefusal(405, "method")
    kind = (request.get_header(b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        return EntryRefusal(403, "not a form of the web UI")
    value = request.get_header(b"origin")
    if request.get_header(b"sec-fetch-site") is None and value != site.origin.encode("ascii"):
        return EntryRefusal(403, f"Origin: {(value or b'').decode('latin-1')!r}")
    return None


def _check_own_origin(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse requests of web pages from other sites; only browsers send an `Origin` header."""
    value = request.get_header(b"origin")
    if value in (None, site.origin.encode("ascii")):
        return None
    return EntryRefusal(403, f"Origin: {(value or b'').decode('latin-1')!r}")


def check_bearer(request: EntryRequest, site: SiteSettings) -> EntryRefusal | None:
    """Refuse requests without the bearer token (RFC 6750), which is the start secret of the session."""
    kind, _, token = (request.get_header(b"authorization") or b"").partition(b" ")
    if kind.lower() == b"bearer" and site.keys.is_start_secret(token.strip().decode("latin-1")):
        return None
    return EntryRefusal(401, "no valid bearer token", "missing or invalid bearer token\n")


class _CheckingMiddleware:
    """ASGI middleware that passes only requests that all checks admit, up to `MAX_REQUESTS` at a time."""

    _checks: Sequence[Check]
    _uncounted_methods: tuple[str, ...] = ()

    def __init__(self, application: Application, site: SiteSettings) -> None:
        self._application = application
        self._site = site
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            # A WebSocket handshake sends the cookies of all ports, and does not identify its page.
            self._site.log(own_text(f"refused a {scope['type']} connection"))
            await send({"type": "websocket.close", "code": 1008})
            return
        request = make_request(scope)
        for check in self._checks:
            if (refusal := check(request, self._site)) is not None:
                return await self._refuse(request, refusal, send)
        is_counted = request.method not in self._uncounted_methods
        if is_counted and self._requests >= MAX_REQUESTS:
            return await self._refuse(request, EntryRefusal(503, "too many concurrent requests"), send)
        self._requests += is_counted
        try:
            await self._pass_request(request, scope, receive, send)
        finally:
            self._requests -= is_counted

    async def _pass_request(self, request: EntryRequest, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)

    async def _refuse(self, request: EntryRequest, refusal: EntryRefusal, send: Send) -> None:
        self._site.log(own_text(f"refused {request.shown}: {refusal.reason}"))
        more = {"connection": "close", **_FIELDS_BY_STATUS.get(refusal.status, {})}
        await respond(send, refusal.status, refusal.words.encode(), headers.TEXT, more)


#: The header that a refusal with this status code must have (RFC 9110 11.6.1 and 15.5.6).
_FIELDS_BY_STATUS = {401: {"www-authenticate": "Bearer"}, 405: {"allow": "GET, HEAD, POST"}}


class BearerMiddleware(_CheckingMiddleware):
    """ASGI middleware for an application whose clients are programs of the user, with a bearer token.

    Args:
        application: The application to protect.
        site: The settings of the server; the start secret is the token.
    """

    _checks = (check_peer, check_version, check_host, _check_own_origin, check_bearer)
    _uncounted_methods = ("GET",)  # Each MCP client keeps a GET request open, for notifications.

    async def _pass_request(self, request: EntryRequest, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, _shield_end(send))


#: The maximum time in seconds to send the end of a response. A client that does not read can delay the end.
_END_TIMEOUT = 5.0


def _shield_end(send: Send) -> Send:
    """Wrap `send` so that the empty last message of an event stream is not cancelled.

    The last message makes Hypercorn report a disconnect, and sse-starlette cancels its response at a
    disconnect. Without the shield, Hypercorn would never close the connection or apply its idle timeout.
    """

    async def send_shielded(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        is_end = is_body and not message.get("body") and not message.get("more_body")
        with trio.move_on_after(_END_TIMEOUT, shield=True) if is_end else nullcontext():
            await send(message)

    return send_shielded


#: The access checks in order. The CSRF token of a form is checked later, because it is in the request body.
CHECKS: tuple[Check, ...] = (
    *(check_peer, check_version, check_host, check_method),
    *(check_program, check_site, check_cookie, check_origin),
)


class AccessMiddleware(_CheckingMiddleware):
    """ASGI middleware for the pages of the web UI.

    Args:
        application: The application to protect.
        site: The settings of the web UI.
        ask: A function that returns the page that offers a preview of a URL from another site.
        checks: The checks, in order.
        csrf: Whether forms must contain a CSRF token.
        form_timeout: Maximum time in seconds to receive a form.
    """

    def __init__(
        self,
        application: Application,
        site: SiteSettings,
        ask: Callable[[str], str],
        *,
        checks: Sequence[Check] = CHECKS,
        csrf: bool = True,
        form_timeout: float = FORM_TIMEOUT,
    ) -> None:
        super().__init__(application, site)
        self._checks = checks
        self._ask = ask
        self._csrf = csrf
        self._form_timeout = form_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, _with_referrer_policy(send))

    async def _pass_request(self, request: EntryRequest, scope: Scope, receive: Receive, send: Send) -> None:
        if request.get_header(b"service-worker") == b"script":
            # An earlier program at this port may have installed a service worker. The service worker would
            # intercept requests to the web UI.
            return await respond(send, 200, _UNREGISTER.encode(), headers.SCRIPT)
        if request.method == "POST":
            form = await self._read_form(request, receive)
            if isinstance(form, EntryRefusal):
                return await self._refuse(request, form, send)
            scope["resolver.form"] = form
        await self._application(scope, receive, send)

    async def _read_form(self, request: EntryRequest, receive: Receive) -> dict[str, str] | EntryRefusal:
        body = b""
        with trio.move_on_after(self._form_timeout) as scope:
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return EntryRefusal(400, "the client disconnected")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > (max_size := MAX_START if request.is_start else MAX_FORM):
                    return EntryRefusal(413, f"form exceeds {max_size} bytes")
        if scope.cancelled_caught:
            return EntryRefusal(408, "form not received in time")
        try:
            fields = dict(parse_form(body))
        except ValueError:
            return EntryRefusal(413, "form has too many fields")
        action = request.path.decode("latin-1")
        is_proved = request.is_start or self._site.keys.is_csrf_token(action, fields.get("csrf", ""))
        if self._csrf and not is_proved:
            return EntryRefusal(403, "no valid CSRF token")
        return fields

    async def _refuse(self, request: EntryRequest, refusal: EntryRefusal, send: Send) -> None:
        if not refusal.has_preview:
            return await super()._refuse(request, refusal, send)
        self._site.log(own_text(f"refused {request.shown}: {refusal.reason}"))
        await respond(send, 200, self._ask(find_target(request)).encode(), headers.HTML)


def find_target(request: EntryRequest) -> str:
    """Return the target URL in the path or the query of a request, or an empty text."""
    if request.path.startswith(PREFIX):
        return parse_path(request.path).text
    try:
        return dict(parse_form(request.query)).get("url", "") if request.path == b"/look" else ""
    except ValueError:
        return ""


def make_request(scope: Scope) -> EntryRequest:
    values_by_name: dict[bytes, tuple[bytes, ...]] = {}
    for name, value in scope["headers"]:
        key = bytes(name).lower()
        values_by_name[key] = (*values_by_name.get(key, ()), bytes(value).strip())
    client, server = scope["client"], scope["server"]
    return EntryRequest(
        scope["method"],
        bytes(scope["raw_path"]),
        bytes(scope["query_string"]),
        scope["http_version"],
        values_by_name,
        Endpoints(client, server) if client and server else None,
    )


async def respond(
    send: Send,
    status: int,
    body: bytes,
    media_type: str,
    more: Mapping[str, str] | None = None,
) -> None:
    """Send a complete response."""
    fields = {"content-type": media_type, "content-length": str(len(body)), **(more or {})}
    start = {"type": "http.response.start", "status": status, "headers": list(headers.make_fields(fields))}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def _with_referrer_policy(send: Send) -> Send:
    """Wrap `send` to add a Referrer-Policy header to each response without this header."""

    async def send_with_policy(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = list(message.get("headers", ()))
            if not any(name == b"referrer-policy" for name, _ in fields):
                message = {**message, "headers": [*fields, *headers.make_fields(headers.REFERRER)]}
        await send(message)

    return send_with_policy


async def serve_lifespan(receive: Receive, send: Send) -> None:
    """Serve the ASGI lifespan protocol: acknowledge the startup and shutdown of the server."""
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
