"""Access to the web UI: a function in front of the framework that judges each request before it is routed.

It admits requests of our own pages, or of a user, and refuses all others. `CHECKS` are its rules, in order;
each examines a request and returns a reason to refuse it, or nothing. A page elsewhere reaches every port of
this machine: another port of this address even with our cookie, for cookies ignore ports, and `SameSite` does
as well. The browser's statement about the source of a request (`Sec-Fetch-Site`) decides about that, `Host`
about names that were made to lead here, and the cookie about clients that are not browsers.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import trio

from protocols.errors import LocalError, NotConfigured
from resolver.url.registry import SCHEMES
from resolver.web import headers
from resolver.web.headers import SessionKeys

# URLs inside our URLs: whole, each octet but letters, digits and `-._~` percent-encoded, as one
# segment.
#
# A browser removes dots, a `#` and what follows, and controls from what it takes for a path; of a segment
# that is encoded whole it changes nothing. So it is read from the octets of the path as they came, and
# decoded once.

PREFIX = b"/u/"
#: How browsers must call a scheme that is none of the web's to let a page handle it.
_WEB = "web+"
#: In place of a page's ID: no page of ours has it, and nobody typed it.
ASKED = "asked"
_MOST_FIELDS = 200
#: What is encoded of ASCII, the percent sign first.
_ENCODED = {mark: quote(mark, safe="") for mark in ["%", *map(chr, range(128))]}
_ENCODED = {mark: encoded for mark, encoded in _ENCODED.items() if mark != encoded}


class PageAddress(NamedTuple):
    """A URL that a path names. `raw`: it was typed there by hand, so a browser may have changed it before."""

    text: str
    raw: bool


def path(url: str) -> str:
    """Where the page of a URL is."""
    return f"/u/{quote_whole(url)}"


def make_link(url: str, from_id: str, relevant: Iterable[str] = ()) -> str:
    """The same, as a link on the page that is remembered as `from_id`; of a search that is for what is like
    some documents, too."""
    asked = [f"from={from_id}"] if from_id else []
    asked += (f"relevant={quote_whole(each)}" for each in relevant)
    return f"{path(url)}?{'&'.join(asked)}" if asked else path(url)


def look(url: str, from_id: str) -> str:
    """Where it is judged, and nothing sent: a URL that the page `from_id` has, or that somebody else asked to
    open (`ASKED`)."""
    return f"/look?url={quote_whole(url)}&from={from_id}"


def quote_whole(text: str) -> str:
    """As `quote` has it, in a third of the time where it is ASCII: a page may have 10,000."""
    if not text.isascii():
        return quote(text, safe="", errors="surrogateescape")
    for mark, encoded in _ENCODED.items():
        if mark in text:
            text = text.replace(mark, encoded)
    return text


def parse_path(raw_path: bytes) -> PageAddress:
    """What a path below `PREFIX` names, as it came: nothing is repaired."""
    octets = raw_path[len(PREFIX) :]
    raw = b":" in octets or b"/" in octets
    return PageAddress(strip_web_prefix(text_of(octets if raw else unquote_to_bytes(octets))), raw)


def strip_web_prefix(text: str) -> str:
    """`web+gopher:` is `gopher:` where we have that scheme, and nowhere else."""
    if text[: len(_WEB)].lower() == _WEB and text[len(_WEB) :].partition(":")[0].lower() in SCHEMES:
        return text[len(_WEB) :]
    return text


def text_of(octets: bytes) -> str:
    """As of a command line: what is no text is still what it is, and the parser objects to it."""
    return octets.decode("utf-8", "surrogateescape")


def form(octets: bytes) -> list[tuple[str, str]]:
    """The fields of a form, or of what follows a `?`. Raises `ValueError` for more than anybody fills in."""
    return parse_qsl(
        octets.decode("latin-1"),
        keep_blank_values=True,
        encoding="utf-8",
        errors="surrogateescape",
        max_num_fields=_MOST_FIELDS,
    )


# The listening sockets for browsers of this machine, bound first so that their port numbers are known before
# the first page is made. Listening sockets are not outbound connections: the gate alone opens the targets of
# URLs.

#: The numeric address and no name: of `localhost` browsers take `::1` first, where another user may listen.
LOOPBACK = "127.0.0.1"

#: Milliseconds after which a reader that takes nothing is given up. A server's sending has no deadline of its
#: own, and would hold a shutdown.
_UNREAD = 4_000

_OWN_PORTS = {"http": 80, "https": 443}

#: Linux knows the user of each socket, macOS and the BSDs do not tell.
_KNOWS_USERS = sys.platform == "linux"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9  # columns
_LISTENS = b"0A"  # a state
_MOST_TABLE = 16_777_216

#: A socket of IPv6 has an address of IPv4 behind this prefix (RFC 4291 2.5.5.2).
_MAPPED = bytes(10) + b"\xff\xff"

#: What Linux is asked for one connection, and what it answers (sock_diag(7)): the head of a message, the
#: question, the ports in the order of the network, the rest of the places, any interface and any cookie.
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_PORTS = struct.Struct(">HH")
_USER_AND_INODE = struct.Struct("=II")
_ANY = struct.pack("=III", 0, 0xFFFF_FFFF, 0xFFFF_FFFF)
_ANSWERED_PORTS, _ANSWERED_USER, _ANSWER = 20, 80, 88  # where they begin in an answer, and how long that is


def bind_socket(address: str, port: int) -> socket.socket:
    """A socket at that place, not yet listening; port 0 is one that is free. Raises `LocalError`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by what is accepted
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD)
        found.bind((address, port))
    except OSError as error:
        found.close()
        raise LocalError(f"cannot listen at {address} port {port}: {error.strerror}") from error
    return found


class Certificate(NamedTuple):
    """Files: of the certificate, and of its key, which may be the same one."""

    chain: str
    key: str


def check_certificate(certificate: Certificate) -> None:
    """Raises `NotConfigured` for what no server could show."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*certificate, password=_no_password)
    except (OSError, ValueError) as error:
        words = f"cannot serve with the certificate {certificate.chain} and the key {certificate.key}"
        raise NotConfigured(f"{words}: {error}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password")


def place_of(scheme: str, address: str, port: int) -> str:
    """What browsers write in `Host` and in an origin: without a port that is the scheme's own."""
    host = f"[{address}]" if ":" in address else address
    return host if port == _OWN_PORTS[scheme] else f"{host}:{port}"


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


class Endpoints(NamedTuple):
    """Both ends of a connection that was accepted: the numeric address and the port of each."""

    peer: tuple[str, int]
    own: tuple[str, int]


def is_of_this_user(ends: Endpoints) -> bool:
    """Is the other end of a connection on this machine a process of our user? Where the system does not tell
    users, every peer on loopback is. A connection is both addresses and both ports: the port of a peer at
    127.0.0.2 is also that of somebody else's socket at 127.0.0.1."""
    if not ip_address(ends.peer[0]).is_loopback:
        return False
    if not _KNOWS_USERS:
        return True
    if (known := _user_of(ends)) is not None:
        return known == os.geteuid()
    return {uid for table in _TABLES for uid in _uids(table, ends)} == {os.geteuid()}


def is_listened_to_by_this_user(port: int) -> bool:
    """Is whoever listens at that port of this machine, at whichever address, a process of our user? Where the
    system does not tell users, it is."""
    uids = {int(row[_UID]) for table in _TABLES for row in _rows(table, port) if row[_STATE] == _LISTENS}
    return uids == {os.geteuid()} or not _KNOWS_USERS


def _user_of(ends: Endpoints) -> int | None:
    """Who is at the other end of that connection, by a question for it alone: to read the table of all takes
    longer than a page, where thousands have just ended. None where that is not known so.

    A socket that its process has closed has the user 0 and the inode 0 there: nobody's, and not root's."""
    packed = _pack_ends(ends)
    family = socket.AF_INET if len(packed[0]) == 4 else socket.AF_INET6
    places = _PORTS.pack(ends.peer[1], ends.own[1]) + b"".join(each.ljust(16, b"\0") for each in packed)
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0xFFFF_FFFF) + places + _ANY
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as system:
            system.send(_HEAD.pack(_HEAD.size + len(question), _BY_FAMILY, _REQUEST, 1, 0) + question)
            answer = system.recv(4_096, socket.MSG_DONTWAIT)
    except (AttributeError, OSError):  # there is no such thing
        return None
    if len(answer) < _ANSWER or _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    if _PORTS.unpack_from(answer, _ANSWERED_PORTS) != (ends.peer[1], ends.own[1]):
        return None
    user, inode = _USER_AND_INODE.unpack_from(answer, _ANSWERED_USER)
    return int(user) if inode else None


def _uids(table: str, ends: Endpoints) -> list[int]:
    """Of the rows whose local end is the peer, and whose remote one is ours; none of what is closed."""
    packed = _pack_ends(ends)
    prefixes = (b"", _MAPPED) if len(packed[0]) == 4 else (b"",)
    wanted = [
        [_column(prefix + packed[0], ends.peer[1]), _column(prefix + packed[1], ends.own[1])]
        for prefix in prefixes
    ]
    rows = _rows(table, ends.peer[1])
    return [int(row[_UID]) for row in rows if [row[_LOCAL], row[_REMOTE]] in wanted and row[_INODE] != b"0"]


def _pack_ends(ends: Endpoints) -> tuple[bytes, bytes]:
    return ip_address(ends.peer[0]).packed, ip_address(ends.own[0]).packed


def _column(address: bytes, port: int) -> bytes:
    """One end as the table has it: words of 32 bits as the machine reads them, in hexadecimal digits."""
    words = struct.unpack(f"={len(address) // 4}I", address)
    return b"%b:%04X" % (b"".join(b"%08X" % word for word in words), port)


def _rows(table: str, port: int) -> list[list[bytes]]:
    """Those whose local end has that port (proc(5))."""
    try:
        with open(table, "rb") as file:
            lines = file.read(_MOST_TABLE).splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines if b":%04X " % port in line]
    return [row for row in rows if len(row) > _INODE and _port(row[_LOCAL]) == port]


def _port(place: bytes) -> int:
    return int(place.rpartition(b":")[2], 16)


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Any]
Send: TypeAlias = Callable[[Message], Any]
Application: TypeAlias = Callable[[Scope, Receive, Send], Any]

#: Octets of a form, and seconds in which it has to be here.
MOST_FORM = 65_536
FORM_LASTS = 10.0
#: Requests at a time: who holds more has no need of them.
MOST_REQUESTS = 64

#: Octets of what another program asks for: a URL of 65,536 characters, encoded.
MOST_START = 262_144

_ENTRY, _GATEWAY, _START = b"/enter", b"/g/", b"/start"
_UNREGISTER = (
    'self.addEventListener("install", () => self.skipWaiting());\n'
    'self.addEventListener("activate", () => self.registration.unregister());\n'
)


class SiteSettings(NamedTuple):
    """What the gate guards. `place` is what `Host` must be; `tell` takes a line for the log. `public`: others
    than this machine are served, whose users nobody here knows."""

    place: str
    port: int
    keys: SessionKeys
    tell: Callable[[str], None]
    scheme: str = "http"
    public: bool = False

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.place}"

    @property
    def gateway(self) -> str:
        """What other clients are told, for their own `{url}`."""
        return f"{self.origin}/g/{self.keys.gateway}/{{url}}"


class EntryRequest(NamedTuple):
    """A request, before anything of it is believed."""

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
    def is_by_itself(self) -> bool:
        """Does it bring a proof of its own, in place of the cookie?"""
        return self.is_entry or self.is_gateway or self.is_start

    @property
    def shown(self) -> str:
        """For the log: no secret is in it."""
        name = b"/g/..." if self.is_gateway else self.path[:200]
        return f"{self.method} {name.decode('latin-1')}"

    def get_header(self, name: bytes) -> bytes | None:
        """One header; None where it is absent. Of several nobody knows which counts: that is as none that is
        right."""
        found = self.headers.get(name, ())
        return None if not found else found[0] if len(found) == 1 else b", ".join(found)


class EntryRefusal(NamedTuple):
    """`asks`: a person may look at it."""

    status: int
    why: str
    words: str = ""
    asks: bool = False


Check: TypeAlias = Callable[[EntryRequest, SiteSettings], EntryRefusal | None]


def peer(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Another user of this machine sees addresses in its list of processes."""
    if house.public or (visit.ends is not None and is_of_this_user(visit.ends)):
        return None
    return EntryRefusal(403, "from another user of this machine")


def version(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """The server speaks HTTP/2 in the clear, unasked; no browser does."""
    return None if visit.version in ("1.0", "1.1") else EntryRefusal(403, f"HTTP/{visit.version}")


def host(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """A name that leads here is not ours, whoever made it lead here."""
    if visit.headers.get(b"host") == (house.place.encode("ascii"),):
        return None
    return EntryRefusal(421, f"Host: {(visit.get_header(b'host') or b'').decode('latin-1')!r}")


def method(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    if visit.method not in ("GET", "HEAD", "POST"):
        return EntryRefusal(405, "method")
    return None if visit.path.startswith(b"/") else EntryRefusal(421, "this is no proxy")


def site(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Another port of this address is `same-site`, and not ours."""
    said = visit.get_header(b"sec-fetch-site")
    if visit.is_by_itself or said in (None, b"same-origin", b"none"):
        return None
    why = f"Sec-Fetch-Site: {(said or b'').decode('latin-1')!r}"
    navigates = visit.get_header(b"sec-fetch-mode"), visit.get_header(b"sec-fetch-dest")
    if visit.method == "GET" and navigates == (b"navigate", b"document"):
        return EntryRefusal(200, why, asks=True)
    return EntryRefusal(403, why)


def cookie(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """401 would make browsers ask for a password (RFC 9110 15.5.2)."""
    if visit.is_by_itself or house.keys.is_ours(visit.headers.get(b"cookie", ())):
        return None
    return EntryRefusal(403, "no cookie of ours", "Start with: resolve serve --open\n")


def program(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Who asks for a way in has read the file that says where we are. A browser never has, whatever page is
    in it."""
    if not visit.is_start:
        return None
    strange = [name for name in visit.headers if name.startswith(b"sec-fetch-") or name == b"origin"]
    if strange:
        return EntryRefusal(
            403, f"a browser at {visit.path.decode('latin-1')}: {strange[0].decode('latin-1')}"
        )
    kind, _, secret = (visit.get_header(b"authorization") or b"").partition(b" ")
    if kind.lower() == b"bearer" and house.keys.is_start(secret.decode("latin-1")):
        return None
    return EntryRefusal(403, "no secret of ours")


def origin(visit: EntryRequest, house: SiteSettings) -> EntryRefusal | None:
    """Of what acts, from a browser that does not say where from; and only as our forms are sent."""
    if visit.method != "POST" or visit.is_start:
        return None
    if visit.is_entry or visit.is_gateway:
        return EntryRefusal(405, "method")
    kind = (visit.get_header(b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        return EntryRefusal(403, "no form of ours")
    given = visit.get_header(b"origin")
    if visit.get_header(b"sec-fetch-site") is None and given != house.origin.encode("ascii"):
        return EntryRefusal(403, f"Origin: {(given or b'').decode('latin-1')!r}")
    return None


#: In this order. The form's own proof comes after them, for it is in the body.
CHECKS: tuple[Check, ...] = (peer, version, host, method, program, site, cookie, origin)


class Entrance:
    """An application that only such requests reach as `checks` let in; `csrf` is whether forms prove that
    they are ours. `said` is what every answer says, but those of the server itself, which have it from
    there."""

    def __init__(
        self,
        inside: Application,
        house: SiteSettings,
        ask: Callable[[str], str],
        *,
        checks: Sequence[Check] = CHECKS,
        csrf: bool = True,
        form_lasts: float = FORM_LASTS,
    ) -> None:
        self._inside = inside
        self._house = house
        self._ask = ask
        self._checks = checks
        self._csrf = csrf
        self._form_lasts = form_lasts
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await serve_lifespan(receive, send)
        if (
            scope["type"] != "http"
        ):  # a WebSocket has the cookies of other ports, and says nothing of its page
            self._house.tell(f"refused a {scope['type']}")
            await send({"type": "websocket.close", "code": 1008})
            return None
        visit, send = visit_of(scope), _with_referrer_policy(send)
        for check in self._checks:
            if (refusal := check(visit, self._house)) is not None:
                return await self._refuse(visit, refusal, send)
        if self._requests >= MOST_REQUESTS:
            return await self._refuse(visit, EntryRefusal(503, "too many requests at a time"), send)
        self._requests += 1
        try:
            return await self._let_in(visit, scope, receive, send)
        finally:
            self._requests -= 1

    async def _let_in(self, visit: EntryRequest, scope: Scope, receive: Receive, send: Send) -> None:
        if visit.get_header(b"service-worker") == b"script":
            # One that an earlier program left at this port would answer in our place.
            return await answer(send, 200, _UNREGISTER.encode(), headers.SCRIPT)
        if visit.method == "POST":
            found = await self._form(visit, receive)
            if isinstance(found, EntryRefusal):
                return await self._refuse(visit, found, send)
            scope["resolver.form"] = found
        await self._inside(scope, receive, send)

    async def _form(self, visit: EntryRequest, receive: Receive) -> dict[str, str] | EntryRefusal:
        body = b""
        with trio.move_on_after(self._form_lasts) as scope:
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return EntryRefusal(400, "it went away")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > (most := MOST_START if visit.is_start else MOST_FORM):
                    return EntryRefusal(413, f"a form of more than {most} octets")
        if scope.cancelled_caught:
            return EntryRefusal(408, "a form that did not come")
        try:
            form_ = dict(form(body))
        except ValueError:
            return EntryRefusal(413, "a form of too many fields")
        action = visit.path.decode("latin-1")
        proved = visit.is_start or self._house.keys.is_of_form(action, form_.get("csrf", ""))
        if self._csrf and not proved:
            return EntryRefusal(403, "no form of ours sent that")
        return form_

    async def _refuse(self, visit: EntryRequest, refusal: EntryRefusal, send: Send) -> None:
        self._house.tell(f"refused {visit.shown}: {refusal.why}")
        if refusal.asks:
            return await answer(send, 200, self._ask(target_of(visit)).encode(), headers.HTML)
        allow = {"allow": "GET, HEAD, POST"} if refusal.status == 405 else {}
        more = {"connection": "close", **allow}
        await answer(send, refusal.status, refusal.words.encode(), headers.TEXT, more)


def target_of(visit: EntryRequest) -> str:
    """The URL that an address of ours names, else nothing."""
    if visit.path.startswith(PREFIX):
        return parse_path(visit.path).text
    try:
        return dict(form(visit.query)).get("url", "") if visit.path == b"/look" else ""
    except ValueError:
        return ""


def visit_of(scope: Scope) -> EntryRequest:
    found: dict[bytes, tuple[bytes, ...]] = {}
    for name, value in scope["headers"]:
        key = bytes(name).lower()
        found[key] = (*found.get(key, ()), bytes(value).strip())
    client, server = scope["client"], scope["server"]
    return EntryRequest(
        scope["method"],
        bytes(scope["raw_path"]),
        bytes(scope["query_string"]),
        scope["http_version"],
        found,
        Endpoints(client, server) if client and server else None,
    )


async def answer(
    send: Send,
    status: int,
    body: bytes,
    media_type: str,
    more: Mapping[str, str] | None = None,
) -> None:
    """A whole answer."""
    said = {"content-type": media_type, "content-length": str(len(body)), **(more or {})}
    await send({"type": "http.response.start", "status": status, "headers": list(headers.fields(said))})
    await send({"type": "http.response.body", "body": body})


def _with_referrer_policy(send: Send) -> Send:
    """What every answer says that does not say otherwise."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = list(message.get("headers", ()))
            if not any(name == b"referrer-policy" for name, _ in said):
                message = {**message, "headers": [*said, *headers.fields(headers.REFERRER)]}
        await send(message)

    return sent


async def serve_lifespan(receive: Receive, send: Send) -> None:
    """The server begins and ends."""
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
